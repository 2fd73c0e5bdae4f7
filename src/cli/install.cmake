# Run by `cmake --install`: what only the installed binary can make, from its own texts.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
set(millrace "${root}/bin/millrace")
file(CREATE_LINK millrace "${root}/bin/tarshards" SYMBOLIC)

set(manual "${root}/share/man/man1")
file(MAKE_DIRECTORY "${manual}")
message(STATUS "Installing: ${manual}")
execute_process(COMMAND "${millrace}" --quiet manual "${manual}" COMMAND_ERROR_IS_FATAL ANY)

set(bash share/bash-completion/completions/millrace)
set(zsh share/zsh/site-functions/_millrace)
set(fish share/fish/vendor_completions.d/millrace.fish)
foreach(shell bash zsh fish)
  set(script "${root}/${${shell}}")
  get_filename_component(folder "${script}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  message(STATUS "Installing: ${script}")
  execute_process(COMMAND "${millrace}" completion ${shell} OUTPUT_FILE "${script}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
# The one script is for both programs; shells look for it by the name of what is typed.
file(CREATE_LINK millrace "${root}/share/bash-completion/completions/tarshards" SYMBOLIC)
file(CREATE_LINK millrace.fish "${root}/share/fish/vendor_completions.d/tarshards.fish" SYMBOLIC)
