// Result<T>: a value or an Error, shaped like std::expected. MR_TRY unwraps or returns.
//
//   Result<Index> load(const std::string& path) {
//     auto bytes = MR_TRY(read_file(path));   // on error: returns it from load()
//     return parse(bytes);
//   }
//
// Default-constructible (a default T), so that coroutine frameworks can hold one. Move-only. Two words larger
// than a T: the tar readers return several per sample.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/error.h"

namespace millrace {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result() : value_(), has_value_(true) {}
  template <typename U = T>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::remove_cvref_t<U>, Error>)
  Result(U&& value) : value_(std::forward<U>(value)), has_value_(true) {}
  Result(Error error) : error_(std::move(error)) {}
  Result(Result&& other) noexcept : error_(std::move(other.error_)), has_value_(other.has_value_) {
    if (has_value_) std::construct_at(&value_, std::move(other.value_));
  }
  Result& operator=(Result&& other) noexcept {
    if (this != &other) {
      std::destroy_at(this);
      std::construct_at(this, std::move(other));
    }
    return *this;
  }
  ~Result() {
    if (has_value_) std::destroy_at(&value_);
  }

  bool has_value() const { return has_value_; }
  explicit operator bool() const { return has_value_; }

  T& operator*() & {
    check();
    return value_;
  }
  const T& operator*() const& {
    check();
    return value_;
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  T take() {
    check();
    return std::move(value_);
  }
  const Error& error() const {
    MR_ASSERT(!has_value());
    return error_;
  }
  Error take_error() {
    MR_ASSERT(!has_value());
    return std::move(error_);
  }

  // Adds what the caller was doing, only where there is an error.
  Result within(std::string_view what) && {
    if (!has_value()) error_ = std::move(error_).within(what);
    return std::move(*this);
  }
  Result during(std::string_view stage) && {
    if (!has_value()) error_ = std::move(error_).during(stage);
    return std::move(*this);
  }

 private:
  void check() const {
    if (!has_value()) [[unlikely]] {
      assertion_failed("Result has a value", error_.message(), __FILE__, __LINE__);
    }
  }

  union {
    T value_;  // alive where has_value_
  };
  Error error_;
  bool has_value_ = false;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), has_value_(false) {}

  bool has_value() const { return has_value_; }
  explicit operator bool() const { return has_value_; }
  void take() { MR_ASSERT(has_value()); }
  const Error& error() const {
    MR_ASSERT(!has_value());
    return error_;
  }
  Error take_error() {
    MR_ASSERT(!has_value());
    return std::move(error_);
  }
  Result within(std::string_view what) && {
    if (!has_value()) error_ = std::move(error_).within(what);
    return std::move(*this);
  }
  Result during(std::string_view stage) && {
    if (!has_value()) error_ = std::move(error_).during(stage);
    return std::move(*this);
  }

 private:
  Error error_;
  bool has_value_ = true;
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
