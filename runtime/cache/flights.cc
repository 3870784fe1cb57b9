#include "runtime/cache/flights.h"

#include <algorithm>

namespace hone {

bool Flights::Join(const std::string& name, const ResolvedRequest& request, Policy policy,
                   std::shared_ptr<Waiter> waiter) {
  MutexLock lock(&mutex_);
  const auto [it, first] = entries_.try_emplace(name);
  Flight& flight = it->second.flight;
  flight.waiters.push_back(std::move(waiter));
  if (first) {
    flight.request = request;
    flight.policy = policy;
  } else {
    ++joined_;
  }
  return first;
}

bool Flights::Wanted(const std::string& name) const {
  MutexLock lock(&mutex_);
  return entries_.count(name) > 0;
}

bool Flights::Begin(const std::string& name) {
  MutexLock lock(&mutex_);
  const auto it = entries_.find(name);
  if (it == entries_.end()) return false;
  it->second.goes_on = true;
  it->second.unqueue = nullptr;
  return true;
}

int64_t Flights::NewStage(const std::string& name) {
  MutexLock lock(&mutex_);
  const int64_t stage = ++last_stage_;
  if (const auto it = entries_.find(name); it != entries_.end()) {
    it->second.stage = stage;
    it->second.unqueue = nullptr;
  }
  return stage;
}

void Flights::SetUnqueue(const std::string& name, int64_t stage, Unqueue unqueue) {
  {
    MutexLock lock(&mutex_);
    if (const auto it = entries_.find(name); it != entries_.end() && it->second.stage == stage) {
      it->second.unqueue = std::move(unqueue);
      return;
    }
  }
  unqueue();
}

bool Flights::Remove(Entry& entry, const std::shared_ptr<Waiter>& waiter) {
  auto& waiters = entry.flight.waiters;
  const auto found = std::find(waiters.begin(), waiters.end(), waiter);
  if (found == waiters.end()) return false;
  waiters.erase(found);
  return true;
}

void Flights::LeaveToItself(const std::string& name, const std::shared_ptr<Waiter>& waiter) {
  MutexLock lock(&mutex_);
  const auto it = entries_.find(name);
  if (it != entries_.end() && Remove(it->second, waiter)) it->second.goes_on = true;
}

void Flights::Leave(const std::string& name, const std::shared_ptr<Waiter>& waiter) {
  Entry ended;
  {
    MutexLock lock(&mutex_);
    const auto it = entries_.find(name);
    // Another flight of this name is none of this caller's business.
    if (it == entries_.end() || !Remove(it->second, waiter)) return;
    if (!it->second.flight.waiters.empty() || it->second.goes_on) return;
    ended = std::move(it->second);
    entries_.erase(it);
  }
  ++dropped_;
  if (ended.unqueue) ended.unqueue();
}

std::optional<Flights::Flight> Flights::Take(const std::string& name) {
  MutexLock lock(&mutex_);
  const auto it = entries_.find(name);
  if (it == entries_.end()) return std::nullopt;
  Flight flight = std::move(it->second.flight);
  entries_.erase(it);
  return flight;
}

std::vector<std::string> Flights::Names() const {
  MutexLock lock(&mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace hone
