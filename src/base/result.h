// Result<T>: a value or an Error, shaped like std::expected. MR_TRY unwraps or returns.
//
//   Result<Index> load(const std::string& path) {
//     auto bytes = MR_TRY(read_file(path));   // on error: returns it from load()
//     return parse(bytes);
//   }
//
// Default-constructible (a default T), so that coroutine frameworks can hold one. Move-only.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/error.h"

namespace millrace {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result() : value_(std::in_place) {}
  template <typename U = T>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::remove_cvref_t<U>, Error>)
  Result(U&& value) : value_(std::in_place, std::forward<U>(value)) {}
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }

  T& operator*() & {
    check();
    return *value_;
  }
  const T& operator*() const& {
    check();
    return *value_;
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  T take() {
    check();
    return std::move(*value_);
  }
  const Error& error() const {
    MR_ASSERT(error_.has_value());
    return *error_;
  }
  Error take_error() {
    MR_ASSERT(error_.has_value());
    return std::move(*error_);
  }

  // Adds what the caller was doing, only where there is an error.
  Result within(std::string_view what) && {
    if (error_) error_ = std::move(*error_).within(what);
    return std::move(*this);
  }

 private:
  void check() const {
    if (!value_) [[unlikely]] {
      assertion_failed("Result has a value", error_ ? error_->message() : "moved from", __FILE__, __LINE__);
    }
  }

  std::optional<T> value_;
  std::optional<Error> error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void take() { MR_ASSERT(has_value()); }
  const Error& error() const {
    MR_ASSERT(error_.has_value());
    return *error_;
  }
  Error take_error() {
    MR_ASSERT(error_.has_value());
    return std::move(*error_);
  }
  Result within(std::string_view what) && {
    if (error_) error_ = std::move(*error_).within(what);
    return std::move(*this);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace millrace

#define MR_TRY(expression)           \
  __extension__({                    \
    auto mr_result = (expression);   \
    if (!mr_result) [[unlikely]]     \
      return mr_result.take_error(); \
    mr_result.take();                \
  })
