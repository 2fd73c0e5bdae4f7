// Wrong on purpose: reads what a mutex guards without holding it. A test sees to it that the compiler
// refuses.
#include "base/mutex.h"

namespace millrace::testing {

class Careless {
 public:
  int count() const { return count_; }

 private:
  mutable Mutex mutex_;
  int count_ MR_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::testing
