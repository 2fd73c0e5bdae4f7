// Tables of nodes and of slices, and the advice below them.
#include "cli/cluster_text.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"

namespace millrace::cli {

namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest word, two blanks between them.
std::string table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}", row[i], widths[i] + 2);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

// "12 s", "3 min", "5 h", "9 days"; empty where the time is not known.
std::string age(const Json& node, int64_t now_ms) {
  const auto since = parse_iso_date(text_of(node, "since"));
  if (!since) return "";
  // Clocks of two machines differ a little.
  const int64_t seconds = std::max<int64_t>(0, now_ms - *since) / 1000;
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

bool is_full(const Json& drive) {
  return drive.value("full", false);
}

// "3", or "3 (1 away)".
std::string drives_text(const Json& drives) {
  std::string others;
  for (const char* state : {"draining", "away", "gone"}) {
    const auto count =
        std::ranges::count_if(drives, [&](const Json& drive) { return text_of(drive, "state") == state; });
    if (count > 0) others += fmt::format("{}{} {}", others.empty() ? "" : ", ", count, state);
  }
  const auto full = std::ranges::count_if(drives, is_full);
  if (full > 0) others += fmt::format("{}{} full", others.empty() ? "" : ", ", full);
  return others.empty() ? fmt::format("{}", drives.size()) : fmt::format("{} ({})", drives.size(), others);
}

std::string answers_text(const Json& cluster, const Json& node) {
  if (node.at("number") == cluster.at("self")) return "asked";
  if (text_of(node, "state") == "away") return "-";
  for (const Json& peer : cluster.at("peers")) {
    if (peer.at("number") != node.at("number") || peer.at("answers").get<uint64_t>() == 0) continue;
    return fmt::format("{:.1f} ms", peer.at("mean_answer_us").get<double>() / 1000);
  }
  return "-";
}

uint64_t number_of(const Json& node, const char* name) {
  const auto progress = node.find("progress");
  return progress == node.end() ? 0 : progress->value(name, uint64_t{0});
}

uint64_t sum_of(const Json& cluster, const char* name) {
  uint64_t total = 0;
  for (const Json& node : cluster.at("nodes")) total += number_of(node, name);
  return total;
}

bool lacks_slices(const Json& cluster) {
  return sum_of(cluster, "below_redundancy") > 0;
}

// What is to be healed and moved, and how far that is.
std::string healing_text(const Json& cluster) {
  const auto sum = [&](const char* name) { return sum_of(cluster, name); };
  const uint64_t below = sum("below_redundancy");
  const uint64_t floor = sum("below_floor");
  const uint64_t bytes = sum("bytes_to_move");
  const uint64_t rate = sum("bytes_per_second");
  const uint64_t objects = sum("objects");
  std::string text = fmt::format("{} {}", objects, objects == 1 ? "object" : "objects");
  if (below > 0) text += fmt::format(", {} below their redundancy, {} to make", below, format_bytes(bytes));
  if (floor > 0) text += fmt::format(", {} below their floor", floor);
  if (rate > 0) text += fmt::format("; {}/s, about {} s left", format_bytes(rate), bytes / rate + 1);
  return text + "\n";
}

std::string problem_text(const Json& node) {
  const auto progress = node.find("progress");
  const std::string problem = progress == node.end() ? "" : text_of(*progress, "problem");
  if (problem.empty()) return "";
  return fmt::format("node {} has {} keys not in order yet, for example {}\n",
                     node.at("number").get<uint32_t>(), number_of(node, "failures"), problem);
}

// Nodes that serve, and that the node that was asked passes over where it can.
std::string grey_text(const Json& cluster) {
  std::string text;
  for (const Json& peer : cluster.at("peers")) {
    const std::string why = text_of(peer, "grey");
    const auto is_it = [&](const Json& node) {
      return node.at("number") == peer.at("number") && text_of(node, "state") == "serving";
    };
    if (why.empty() || !std::ranges::any_of(cluster.at("nodes"), is_it)) continue;
    text += fmt::format(
        "node {} serves badly: {} (asked by node {}). Others are read first; look at its machine, its drives "
        "and its network\n",
        peer.at("number").get<uint32_t>(), why, cluster.at("self").get<uint32_t>());
  }
  return text;
}

std::string damage_text(const Json& node) {
  const uint64_t damaged = number_of(node, "damaged_slices");
  if (damaged == 0) return "";
  return fmt::format("node {} has {} damaged {} to be made again: GET http://{}/-/scrub names them\n",
                     node.at("number").get<uint32_t>(), damaged, damaged == 1 ? "slice" : "slices",
                     text_of(node, "address"));
}

// Whether a walk by the newest map has counted what the node holds.
bool is_counted(const Json& cluster, const Json& node) {
  return number_of(node, "clean") == cluster.at("epoch").get<uint64_t>();
}

// What to do about one node; empty: nothing.
std::string advice(const Json& cluster, const Json& node, int64_t now_ms) {
  const auto number = node.at("number").get<uint32_t>();
  const std::string state = text_of(node, "state");
  if (state == "away") {
    return fmt::format(
        "node {} has been away for {}: start it again, or millrace cluster remove {} once it is gone for "
        "good\n",
        number, age(node, now_ms), number);
  }
  if (state == "draining") {
    const uint64_t slices = number_of(node, "slices");
    if (slices == 0 && !is_counted(cluster, node)) return fmt::format("node {} drains\n", number);
    if (slices == 0)
      return fmt::format("node {} drains and is empty: millrace cluster remove {}\n", number, number);
    return fmt::format("node {} drains: {} slices are still there\n", number, slices);
  }
  return "";
}

std::string drive_advice(const Json& node) {
  const bool away = std::ranges::any_of(node.at("drives"),
                                        [](const Json& drive) { return text_of(drive, "state") == "away"; });
  if (!away || text_of(node, "state") != "serving") return "";
  return fmt::format("node {} lacks a drive: millrace drives list --endpoint http://{} says why\n",
                     node.at("number").get<uint32_t>(), text_of(node, "address"));
}

// Of all nodes: each would say the same.
std::string full_text(const Json& cluster) {
  size_t full = 0;
  size_t drives = 0;
  for (const Json& node : cluster.at("nodes")) {
    if (text_of(node, "state") != "serving") continue;
    drives += node.at("drives").size();
    full += static_cast<size_t>(std::ranges::count_if(node.at("drives"), is_full));
  }
  if (full == 0) return "";
  return fmt::format(
      "{} of {} drives {} nearly full and get no new slices: remove objects, or add drives or nodes\n", full,
      drives, full == 1 ? "is" : "are");
}

}  // namespace

std::string cluster_text(const Json& cluster, int64_t now_ms) {
  std::vector<Row> rows = {{"node", "address", "zone", "state", "for", "drives", "answers in"}};
  std::string todo;
  size_t removed = 0;
  for (const Json& node : cluster.at("nodes")) {
    const std::string state = text_of(node, "state");
    if (state == "gone") {
      ++removed;
      continue;
    }
    const bool leads = node.at("number") == cluster.at("led_by");
    rows.push_back({fmt::format("{}{}", node.at("number").get<uint32_t>(), leads ? " (leads)" : ""),
                    text_of(node, "address"), or_dash(text_of(node, "zone")), state,
                    or_dash(age(node, now_ms)), drives_text(node.at("drives")), answers_text(cluster, node)});
    todo += advice(cluster, node, now_ms) + drive_advice(node) + damage_text(node) + problem_text(node);
  }
  todo += grey_text(cluster) + full_text(cluster);
  const Json& leader = cluster.at("led_by");
  std::string text = fmt::format(
      "cluster {}  epoch {}  {}{}\n", text_of(cluster, "cluster"), cluster.at("epoch").get<uint32_t>(),
      leader.is_null() ? "nobody leads" : fmt::format("led by node {}", leader.get<uint32_t>()),
      removed == 0 ? "" : fmt::format("  {} removed", removed));
  text += table(rows) + healing_text(cluster);
  if (!cluster.at("has_lease").get<bool>()) {
    const std::string problem = text_of(cluster, "problem");
    todo += fmt::format("node {} has no lease and may not act{}: can it reach the registry?\n",
                        cluster.at("self").get<uint32_t>(), problem.empty() ? "" : " (" + problem + ")");
  }
  if (todo.empty() && lacks_slices(cluster))
    return text +
           "all nodes serve, and objects lack slices: if that stays so, add nodes or drives, or lower the "
           "redundancy of their buckets (millrace bucket)\n";
  return text + (todo.empty() ? "all nodes serve: nothing to do\n" : todo);
}

namespace {

// "3 copies", or "4+2 in cells of 1 MiB".
std::string spread_text(const Json& where) {
  const auto k = where.at("k").get<size_t>();
  const size_t slots = where.at("slots").size();
  const auto cell = where.at("cell").get<uint64_t>();
  return (k == 1 ? fmt::format("{} {}", slots, slots == 1 ? "copy" : "copies")
                 : fmt::format("{}+{}", k, where.at("m").get<size_t>())) +
         (cell == 0 ? "" : fmt::format(" in cells of {}", format_bytes(cell)));
}

// A table of the slots, and whether enough of them can be reached.
std::string slots_text(const Json& where) {
  const auto k = where.at("k").get<size_t>();
  const Json& slots = where.at("slots");
  std::vector<Row> rows = {{"slot", "kind", "node", "address", "zone", "node is", "drive", "drive is"}};
  for (const Json& slot : slots) {
    const bool known = slot.contains("node");
    rows.push_back({fmt::format("{}", slot.at("slot").get<size_t>()), text_of(slot, "kind"),
                    known ? fmt::format("{}", slot.at("node").get<uint32_t>()) : "-",
                    or_dash(text_of(slot, "address")), or_dash(text_of(slot, "zone")),
                    or_dash(text_of(slot, "node_state")), or_dash(text_of(slot, "drive")),
                    or_dash(text_of(slot, "drive_state"))});
  }
  const auto alive = static_cast<size_t>(
      std::ranges::count_if(slots, [](const Json& slot) { return slot.at("alive").get<bool>(); }));
  return table(rows) + fmt::format("{} of {} can be reached, and {} {} needed{}\n", alive, slots.size(), k,
                                   k == 1 ? "is" : "are",
                                   alive < k ? ": the object cannot be read until a node returns" : "");
}

}  // namespace

std::string where_text(const Json& where) {
  const std::string size = format_bytes(where.at("size").get<uint64_t>());
  const std::string name = fmt::format("{}/{}  {}", text_of(where, "bucket"), text_of(where, "key"), size);
  const std::string home = fmt::format("home: node {}", where.at("home").get<uint32_t>());
  if (!where.contains("parts"))
    return fmt::format("{}  {}  {}\n{}", name, spread_text(where), home, slots_text(where));
  const Json& parts = where.at("parts");
  std::string text = fmt::format("{}  in {} parts  {}\nits record: {}\n{}", name, parts.size(), home,
                                 spread_text(where), slots_text(where));
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part_size = format_bytes(parts[i].at("size").get<uint64_t>());
    text += fmt::format("part {}: {}  {}\n{}", i + 1, part_size, spread_text(parts[i]), slots_text(parts[i]));
  }
  return text;
}

std::string finding_text(const Json& finding) {
  std::string text = fmt::format("{}: {}", text_of(finding, "found"), text_of(finding, "bucket"));
  if (finding.contains("key")) text += "/" + printable(text_of(finding, "key"));
  if (finding.contains("of")) text += fmt::format(" (of {})", printable(text_of(finding, "of")));
  if (finding.contains("slot")) text += fmt::format(" slot {}", finding.at("slot").get<unsigned>());
  if (finding.contains("block")) text += fmt::format(" block {}", finding.at("block").get<uint64_t>());
  if (finding.contains("node"))
    text += fmt::format(" on node {} ({}) drive {}", finding.at("node").get<uint32_t>(),
                        text_of(finding, "address"), text_of(finding, "drive"));
  return text + ": " + text_of(finding, "why");
}

}  // namespace millrace::cli
