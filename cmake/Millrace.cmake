# How a folder of src/ becomes a library with its tests.
#
#   millrace_library(tar SOURCES format.cc reader.cc LINK millrace_base PkgConfig::zstd)
#
# With MILLRACE_UNIT_TESTS every *_test.cc of the folder becomes one test program, <folder>_test, whose cases ctest sees singly.
include(GoogleTest)

function(millrace_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(millrace_${name} STATIC ${ARG_SOURCES})
  if(MILLRACE_PYTHON)
    # The Python module is a shared object made of these libraries.
    set_target_properties(millrace_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  target_include_directories(millrace_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(millrace_${name} PUBLIC ${ARG_LINK})

  if(NOT MILLRACE_UNIT_TESTS)
    return()
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE millrace_${name} GTest::gtest_main)
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                         PROPERTIES LABELS unit TIMEOUT 300)
  endif()
endfunction()
