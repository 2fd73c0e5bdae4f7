// Learns nodes from headers, and orders them by who is likely to answer.
#include "net/neighbours.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"
#include "base/clock.h"
#include "base/number.h"

namespace millrace::net {

namespace {

std::string object_of(const Url& url) {
  return authority_of(url) + url.path;
}

}  // namespace

std::string authority_of(const Url& url) {
  const bool bare = url.host.find(':') == std::string::npos;
  return fmt::format("{}{}{}:{}", bare ? "" : "[", url.host, bare ? "" : "]", port_of(url));
}

Url at_place(Url url, const std::string& place) {
  const size_t colon = place.rfind(':');
  const auto port = parse_number<uint16_t>(std::string_view(place).substr(colon + 1));
  MR_ASSERT(colon != std::string::npos && port, place);
  url.host = place.substr(0, colon);
  if (url.host.starts_with('[')) url.host = url.host.substr(1, url.host.size() - 2);
  url.port = *port;
  return url;
}

void Neighbours::add_places(const Url& url, const std::vector<std::string>& places) {
  const std::string origin = authority_of(url);
  if (places_.size() >= kMaxOrigins && !places_.contains(origin)) return;
  std::vector<std::string>& known = places_[origin];
  for (const std::string& place : places) {
    if (place.empty() || place == origin || known.size() >= kMaxPlaces) continue;
    if (std::ranges::find(known, place) == known.end()) known.push_back(place);
  }
}

void Neighbours::add(const Url& url, const std::vector<std::string>& places) {
  const MutexLock lock(mutex_);
  add_places(url, places);
}

void Neighbours::learn(const Url& url, const std::string& text) {
  const std::string object = object_of(url);
  const MutexLock lock(mutex_);
  const auto found = objects_.find(object);
  if (found != objects_.end() && found->second.text == text) return;
  auto where = parse_where(text);
  if (!where) return;
  add_places(url, where->holders);
  if (found == objects_.end()) {
    if (order_.size() >= kMaxObjects) {
      objects_.erase(order_.front());
      order_.pop_front();
    }
    order_.push_back(object);
  }
  objects_[object] = {text, std::make_shared<const Where>(std::move(*where))};
}

std::shared_ptr<const Where> Neighbours::find(const Url& url) const {
  const MutexLock lock(mutex_);
  const auto found = objects_.find(object_of(url));
  return found == objects_.end() ? nullptr : found->second.where;
}

std::vector<std::string> Neighbours::order(const Url& url, const std::vector<std::string>& preferred) {
  std::vector<std::string> places;
  const auto append = [&](const std::string& place) {
    if (std::ranges::find(places, place) == places.end()) places.push_back(place);
  };
  for (const std::string& place : preferred) append(place);
  const std::string own = authority_of(url);
  append(own);
  const MutexLock lock(mutex_);
  if (const auto known = places_.find(own); known != places_.end() && !known->second.empty()) {
    // Not all who lost their host go to the same one.
    const size_t first = turn_++ % known->second.size();
    for (size_t i = 0; i < known->second.size(); ++i)
      append(known->second[(first + i) % known->second.size()]);
  }
  if (away_until_us_.empty()) return places;
  const uint64_t now = steady_us();
  std::erase_if(away_until_us_, [&](const auto& entry) { return entry.second <= now; });
  std::vector<std::string> ordered;
  std::vector<std::string> away;
  for (std::string& place : places)
    (away_until_us_.contains(place) ? away : ordered).push_back(std::move(place));
  std::ranges::move(away, std::back_inserter(ordered));
  return ordered;
}

void Neighbours::note_away(const std::string& place) {
  const MutexLock lock(mutex_);
  if (away_until_us_.size() < kMaxOrigins * kMaxPlaces) away_until_us_[place] = steady_us() + kAwayUs;
}

void Neighbours::note_answer(const std::string& place) {
  const MutexLock lock(mutex_);
  away_until_us_.erase(place);
}

}  // namespace millrace::net
