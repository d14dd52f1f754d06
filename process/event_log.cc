#include "process/event_log.h"

#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/utf8.h"
#include "process/clock.h"
#include "program/json_text.h"

namespace shoal {
namespace {

// RFC 3339, UTC.
std::string TimeText(uint64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
  return absl::StrFormat("%s.%03dZ", stamp, static_cast<int>(unix_ms % 1000));
}

std::string_view LevelName(EventLevel level) {
  switch (level) {
    case EventLevel::kInfo:
      return "info";
    case EventLevel::kWarning:
      return "warning";
    case EventLevel::kError:
      return "error";
  }
  return "";
}

struct NamedId {
  const char* name;
  uint64_t value;
};

std::vector<NamedId> ListIds(const EventIds& ids) {
  std::vector<NamedId> list;
  if (ids.job != JobId()) list.push_back({"job", ids.job.value()});
  if (ids.group != GroupId()) list.push_back({"group", ids.group.value()});
  if (ids.epoch != Epoch()) list.push_back({"epoch", ids.epoch.value()});
  if (ids.rank.has_value()) list.push_back({"rank", *ids.rank});
  return list;
}

std::string FormatText(const LogEvent& event, uint64_t at_unix_ms) {
  std::string line =
      absl::StrCat(TimeText(at_unix_ms), " ", absl::AsciiStrToUpper(std::string(LevelName(LevelOf(event.kind)))), " ",
                   std::string(ComponentOf(event.kind)), " ", std::string(EventKey(event.kind)));
  if (!event.subject.empty()) absl::StrAppend(&line, " ", EscapeUnprintable(event.subject));
  std::vector<std::string> ids;
  for (const NamedId& id : ListIds(event.ids)) ids.push_back(absl::StrCat(id.name, "=", id.value));
  if (!ids.empty()) absl::StrAppend(&line, " (", absl::StrJoin(ids, " "), ")");
  return absl::StrCat(line, ": ", EscapeUnprintable(event.text));
}

// 64-bit ids are strings, as in protobuf's JSON: many readers keep numbers as doubles.
std::string FormatJson(const LogEvent& event, uint64_t at_unix_ms) {
  Json line = {{"time", TimeText(at_unix_ms)},
               {"level", LevelName(LevelOf(event.kind))},
               {"component", ComponentOf(event.kind)},
               {"event", EventKey(event.kind)}};
  if (!event.subject.empty()) line["subject"] = event.subject;
  for (const NamedId& id : ListIds(event.ids)) line[id.name] = absl::StrCat(id.value);
  line["text"] = event.text;
  if (event.call != nullptr) {
    line["who"] = event.call->who;
    if (!event.call->role.empty()) line["role"] = event.call->role;
    if (!event.call->from.empty()) line["from"] = event.call->from;
    line["call"] = event.call->call;
    if (!event.call->object.empty()) line["object"] = event.call->object;
    line["outcome"] = event.call->outcome;
    if (event.call->left_out > 0) line["left_out"] = event.call->left_out;
  }
  return JsonText(line);
}

}  // namespace

absl::StatusOr<LogFormat> ParseLogFormat(const std::string& text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError(absl::StrCat(
      "--log-format \"", text, "\" is unknown; give text (human-readable lines) or json (one object per line)"));
}

std::string FormatEvent(const LogEvent& event, uint64_t at_unix_ms, LogFormat format) {
  return format == LogFormat::kJson ? FormatJson(event, at_unix_ms) : FormatText(event, at_unix_ms);
}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Start(LogFormat format) {
  absl::StatusOr<std::unique_ptr<NoticeLog>> lines = NoticeLog::Start("", /*quiet=*/false);
  if (!lines.ok()) return lines.status();
  return std::unique_ptr<EventLog>(new EventLog(format, *std::move(lines)));
}

EventLog::~EventLog() {
  const MutexLock lock(mutex_);
  const uint64_t at_unix_ms = ReadNow().unix_ms;
  const Now at_the_end{.monotonic_ns = kNoDeadline / 2, .unix_ms = at_unix_ms};
  for (size_t kind = 0; kind < kEventKindCount; ++kind) SayTooFast(static_cast<EventKind>(kind), at_the_end);
}

void EventLog::Write(const LogEvent& event) { WriteAt(event, ReadNow()); }

void EventLog::WriteAt(const LogEvent& event, Now now) {
  const MutexLock lock(mutex_);
  if (rate_.Admit(event.kind, now.monotonic_ns)) {
    SayTooFast(event.kind, now);
    return Say(event, event.at_unix_ms != 0 ? event.at_unix_ms : now.unix_ms);
  }
  left_out_.fetch_add(1, std::memory_order_relaxed);
  if (!rate_.BeginsToLeaveOut(event.kind, now.monotonic_ns)) return;
  Say({.kind = EventKind::kEventsLeftOut,
       .text = absl::StrCat("more than ", kEventBurst, " events ", std::string(EventKey(event.kind)), " at once: only ",
                            kEventsPerS, " of them a second are written for now, the others are counted")},
      now.unix_ms);
}

void EventLog::SayTooFast(EventKind kind, Now now) {
  const uint64_t count = rate_.TakeLeftOut(kind, now.monotonic_ns);
  if (count == 0) return;
  Say({.kind = EventKind::kEventsLeftOut,
       .text = absl::StrCat(count, " events ", std::string(EventKey(kind)), " were not written: they came too fast")},
      now.unix_ms);
}

void EventLog::Say(const LogEvent& event, uint64_t at_unix_ms) {
  const LogEvent unread{.kind = EventKind::kEventsLeftOut,
                        .text = absl::StrCat(unread_, " events were not written: nobody read the log fast enough")};
  if (unread_ > 0 && lines_->Say(FormatEvent(unread, at_unix_ms, format_))) unread_ = 0;
  if (lines_->Say(FormatEvent(event, at_unix_ms, format_))) return;
  ++unread_;
  left_out_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace shoal
