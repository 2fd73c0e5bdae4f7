// Jobs as a person reads them, and the line that follows one.
#pragma once

#include <string>

#include "cli/common.h"

namespace millrace::cli {

std::string jobs_text(const Json& jobs);
std::string job_text(const Json& job);
// "job 3f2a9c01 (map) is done: 128 of 128 tasks, 2.1 GB in, 1.4 GB out, in 12.3 s"
std::string job_summary(const Json& job);

// A line on the terminal that is drawn over and over; nothing where nobody looks.
class JobLine {
 public:
  explicit JobLine(const Shell& shell);
  ~JobLine() { clear(); }
  JobLine(const JobLine&) = delete;
  JobLine& operator=(const JobLine&) = delete;
  void draw(const Json& job);
  void clear();

 private:
  const bool is_shown_;
  bool is_drawn_ = false;
};

// Until it ends: success where it is done.
Status watch_job(Shell& shell, const std::string& endpoint, const std::string& id);
// Of millrace job.
void add_job_start(CLI::App& job, Shell& shell);

}  // namespace millrace::cli
