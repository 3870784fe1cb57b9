#include "runtime/tune/recorded_space.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/files.h"
#include "runtime/base/status_macros.h"

namespace hone {
namespace {

using Json = nlohmann::json;

// Of text after decompression. The largest published space has 100 MB.
constexpr size_t kTextBytesMax = size_t{2} << 30;
constexpr size_t kDimensionsMax = 64;  // as many as a template's tunables
constexpr size_t kValuesMax = 65'535;  // of one parameter; what a Point can hold
constexpr double kNanosecondsPerMillisecond = 1e6;

absl::Status Invalid(absl::string_view where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

absl::StatusOr<std::string> Decompress(const std::string& compressed) {
  z_stream stream{};
  // 16: expect a gzip header.
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
    return absl::InternalError("zlib has no memory");
  std::string text;
  // zlib reads only; its interface predates const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  int result = Z_OK;
  while (result == Z_OK && text.size() < kTextBytesMax) {
    const size_t begin = text.size();
    text.resize(begin + (size_t{1} << 20));
    stream.next_out = reinterpret_cast<Bytef*>(&text[begin]);
    stream.avail_out = static_cast<uInt>(text.size() - begin);
    result = inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
    // Several members one after the other are one file.
    if (result == Z_STREAM_END && stream.avail_in > 0) result = inflateReset(&stream);
  }
  inflateEnd(&stream);
  if (result == Z_STREAM_END) return text;
  if (result == Z_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kTextBytesMax, " bytes when decompressed"));
  }
  return absl::InvalidArgumentError("damaged or cut off: not a complete gzip file");
}

// One entry of "results" before values have become positions.
struct Entry {
  std::map<std::string, Json> configuration;
  std::optional<RejectionKind> rejection;
  double time_ns = 0;
};

RejectionKind KindOf(const std::string& invalidity) {
  if (invalidity == "compile") return RejectionKind::kCompile;
  if (invalidity == "timeout") return RejectionKind::kTimeout;
  if (invalidity == "constraints") return RejectionKind::kConstraint;
  if (invalidity == "correctness") return RejectionKind::kWrongResult;
  return RejectionKind::kLaunch;  // "runtime" and whatever else there may be
}

absl::StatusOr<double> TimeOf(const std::string& where, const Json& result) {
  const Json times = result.value("times", Json::object());
  const Json runtimes = times.is_object() ? times.value("runtimes", Json::array()) : Json::array();
  double sum = 0;
  size_t count = 0;
  if (runtimes.is_array() && !runtimes.empty()) {
    for (const Json& runtime : runtimes) {
      if (!runtime.is_number())
        return Invalid(where + ".times.runtimes", "has a value that is no number");
      sum += runtime.get<double>();
      ++count;
    }
  } else {
    // Some tuners write the mean only.
    for (const Json& measurement : result.value("measurements", Json::array())) {
      if (measurement.is_object() && measurement.value("name", Json()) == "time" &&
          measurement.value("value", Json()).is_number()) {
        sum = measurement["value"].get<double>();
        count = 1;
      }
    }
  }
  if (count == 0)
    return Invalid(where + ".times.runtimes",
                   "is missing or empty, and so is the time among the measurements");
  const double mean = sum / static_cast<double>(count);
  if (!std::isfinite(mean) || mean <= 0) {
    return Invalid(where + ".times.runtimes",
                   absl::StrCat("have the mean ", mean, "; expected more than 0"));
  }
  return mean * kNanosecondsPerMillisecond;
}

absl::StatusOr<Entry> ParseEntry(const std::string& where, const Json& result) {
  if (!result.is_object()) return Invalid(where, "is not an object");
  const Json configuration = result.value("configuration", Json());
  if (!configuration.is_object() || configuration.empty()) {
    return Invalid(where + ".configuration", "is missing or empty");
  }
  Entry entry;
  for (const auto& [name, value] : configuration.items()) {
    if (!value.is_primitive() || value.is_null()) {
      return Invalid(absl::StrCat(where, ".configuration.", name),
                     "is neither a number, a text nor a boolean");
    }
    entry.configuration[name] = value;
  }
  const Json invalidity = result.value("invalidity", Json("correct"));
  if (!invalidity.is_string()) return Invalid(where + ".invalidity", "is not a text");
  if (invalidity != "correct") {
    entry.rejection = KindOf(invalidity.get<std::string>());
    return entry;
  }
  HONE_ASSIGN_OR_RETURN(entry.time_ns, TimeOf(where, result));
  return entry;
}

// Integers and booleans as they are, whole numbers written with a fraction too.
std::optional<int64_t> AsInteger(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})
    return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) > 1e15) return std::nullopt;
  return static_cast<int64_t>(number);
}

// The values of one parameter over all entries.
struct DistinctValues {
  std::vector<Json> sorted;  // numbers before texts
  bool integers = false;

  size_t PositionOf(const Json& value) const {
    return static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), value) -
                               sorted.begin());
  }
  SearchSpace::Dimension ToDimension(const std::string& name) const {
    SearchSpace::Dimension dimension{.name = name, .values = {}};
    for (size_t i = 0; i < sorted.size(); ++i) {
      dimension.values.push_back(integers ? *AsInteger(sorted[i]) : static_cast<int64_t>(i));
    }
    return dimension;
  }
};

DistinctValues ValuesOf(const std::string& name, const std::vector<Entry>& entries) {
  // nlohmann's order compares numbers of different kinds by value.
  std::set<Json> distinct;
  for (const Entry& entry : entries) distinct.insert(entry.configuration.at(name));
  DistinctValues values{.sorted = {distinct.begin(), distinct.end()}};
  values.integers = std::all_of(values.sorted.begin(), values.sorted.end(),
                                [](const Json& value) { return AsInteger(value).has_value(); });
  return values;
}

// Takes each element of "results" out of the document as soon as it is parsed: a tree of the whole
// would need ten times the file's size.
class EntryReader {
 public:
  bool OnEvent(int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) in_results_ = parsed == "results";
    if (!in_results_ || depth != 2 || event != Json::parse_event_t::object_end) return true;
    if (status_.ok()) {
      auto entry = ParseEntry(absl::StrCat("results[", entries_.size(), "]"), parsed);
      if (entry.ok()) {
        entries_.push_back(*std::move(entry));
      } else {
        status_ = entry.status();
      }
    }
    return false;  // drops it
  }

  absl::StatusOr<std::vector<Entry>> Read(absl::string_view json) {
    try {
      // What is left of it without its results.
      const Json rest = Json::parse(json.begin(), json.end(),
                                    [this](int depth, Json::parse_event_t event, Json& parsed) {
                                      return OnEvent(depth, event, parsed);
                                    });
    } catch (const Json::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat("not JSON: ", error.what()));
    }
    HONE_RETURN_IF_ERROR(status_);
    if (entries_.empty()) return Invalid("results", "is missing or empty; expected the T4 format");
    return std::move(entries_);
  }

 private:
  bool in_results_ = false;
  absl::Status status_;
  std::vector<Entry> entries_;
};

}  // namespace

absl::StatusOr<RecordedSpace> RecordedSpace::Parse(absl::string_view json) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Entry> entries, EntryReader().Read(json));
  const auto& first = entries.front().configuration;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool same = std::equal(first.begin(), first.end(), entries[i].configuration.begin(),
                                 entries[i].configuration.end(),
                                 [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!same) {
      return Invalid(absl::StrCat("results[", i, "].configuration"),
                     "has other parameters than results[0]");
    }
  }
  RecordedSpace space;
  std::vector<std::pair<std::string, DistinctValues>> varying;
  for (const auto& [name, unused] : first) {
    DistinctValues values = ValuesOf(name, entries);
    if (values.sorted.size() > kValuesMax) {
      return Invalid(absl::StrCat("configuration.", name),
                     absl::StrCat(values.sorted.size(), " values; at most ", kValuesMax));
    }
    if (values.sorted.size() < 2) continue;
    space.dimensions_.push_back(values.ToDimension(name));
    varying.emplace_back(name, std::move(values));
  }
  if (varying.size() > kDimensionsMax) {
    return Invalid("configuration",
                   absl::StrCat(varying.size(), " parameters vary; at most ", kDimensionsMax));
  }
  absl::flat_hash_set<Point> known;
  for (const Entry& entry : entries) {
    Row row{.point = {}, .rejection = entry.rejection, .time_ns = entry.time_ns};
    for (const auto& [name, values] : varying) {
      row.point.push_back(static_cast<uint16_t>(values.PositionOf(entry.configuration.at(name))));
    }
    // A configuration that was measured twice keeps its first result.
    if (known.insert(row.point).second) space.rows_.push_back(std::move(row));
  }
  return space;
}

absl::StatusOr<RecordedSpace> RecordedSpace::Load(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (absl::StartsWith(text, "\x1f\x8b")) {
    auto decompressed = Decompress(text);
    if (!decompressed.ok()) return Invalid(path, decompressed.status().message());
    text = *std::move(decompressed);
  }
  absl::StatusOr<RecordedSpace> space = Parse(text);
  if (!space.ok()) return Invalid(path, space.status().message());
  return space;
}

std::optional<double> RecordedSpace::best_ns() const {
  std::optional<double> best;
  for (const Row& row : rows_) {
    if (!row.rejection && (!best || row.time_ns < *best)) best = row.time_ns;
  }
  return best;
}

}  // namespace hone
