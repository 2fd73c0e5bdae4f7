// Checks the plan once for every value.
#include "plan/sweep.h"

#include "base/number.h"
#include "base/text.h"
#include "plan/set_value.h"

namespace millrace::plan {

namespace {

Error wrong_values(std::string_view text) {
  return make_error(Code::kInvalid, "\"{}\" are not values to try", printable(text, 64))
      .with_hint("4..64:4 for 4, 8 and so on to 64, or a list: 100MB/s,200MB/s");
}

}  // namespace

Result<std::vector<std::string>> expand_values(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    std::vector<std::string> values = split_words(text);
    if (values.empty() || values.size() > kMostPoints) return wrong_values(text);
    return values;
  }
  const size_t colon = text.find(':', dots);
  const std::string_view end =
      text.substr(dots + 2, colon == std::string_view::npos ? colon : colon - dots - 2);
  const auto first = parse_number<uint64_t>(text.substr(0, dots));
  const auto last = parse_number<uint64_t>(end);
  const auto step =
      colon == std::string_view::npos ? uint64_t{1} : parse_number<uint64_t>(text.substr(colon + 1));
  if (!first || !last || !step || *step == 0 || *last < *first || (*last - *first) / *step >= kMostPoints)
    return wrong_values(text);
  std::vector<std::string> values;
  for (uint64_t count = 0; count <= (*last - *first) / *step; ++count)
    values.push_back(std::to_string(*first + count * *step));
  return values;
}

Result<std::vector<SweepPoint>> sweep(const TomlDocument& document, const std::string& key,
                                      const std::vector<std::string>& values) {
  std::vector<SweepPoint> points;
  for (const std::string& value : values) {
    const std::string doing = fmt::format("with {}={}", key, value);
    TomlDocument changed = document;
    MR_TRY(set_value(changed, key, value));
    const Installation plan = MR_TRY(read_installation(changed).within(doing));
    const Check checked = MR_TRY(check(plan).within(doing));
    std::string limit;
    for (const size_t at : checked.ladder[0].resources)
      limit += (limit.empty() ? "" : ", ") + checked.path.resources[at].noun();
    points.push_back({value, checked.samples_per_second, checked.delivered, checked.gpu_utilisation(),
                      checked.cost.dollars, std::move(limit)});
  }
  return points;
}

}  // namespace millrace::plan
