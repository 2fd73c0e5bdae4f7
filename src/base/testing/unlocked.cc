// Wrong on purpose: reads a member without holding the mutex that guards it. A test checks that the compiler
// refuses this file.
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
