#include "tests/scenario/transcript.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace shoal {
namespace {

constexpr char kSeparator[] = "----";

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();  // after the last newline
  return lines;
}

// How many lines the rests of both, from (i, j) on, have in common at most: the table that a difference is read from.
std::vector<std::vector<size_t>> CommonRests(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  return common;
}

}  // namespace

absl::StatusOr<Transcript> ParseTranscript(const std::string& text) {
  const std::vector<std::string> lines = Lines(text);
  Transcript transcript;
  std::vector<std::string> before;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i].front() == '#') {
      before.push_back(lines[i]);
      continue;
    }
    if (i + 1 == lines.size() || lines[i + 1] != kSeparator) {
      return absl::InvalidArgumentError(absl::StrCat("line ", i + 1, ": no ", kSeparator, " after \"", lines[i], "\""));
    }
    TranscriptStep step{.before = std::exchange(before, {}), .command = lines[i]};
    for (i += 2; i < lines.size() && !lines[i].empty(); ++i) step.output.push_back(lines[i]);
    transcript.steps.push_back(std::move(step));
    if (i < lines.size()) before.push_back("");
  }
  transcript.after = std::move(before);
  return transcript;
}

std::string TranscriptText(const Transcript& transcript) {
  std::string text;
  for (const TranscriptStep& step : transcript.steps) {
    for (const std::string& line : step.before) absl::StrAppend(&text, line, "\n");
    absl::StrAppend(&text, step.command, "\n", kSeparator, "\n");
    for (const std::string& line : step.output) absl::StrAppend(&text, line, "\n");
  }
  for (const std::string& line : transcript.after) absl::StrAppend(&text, line, "\n");
  return text;
}

std::string LineDifference(const std::string& expected, const std::string& actual) {
  constexpr size_t kAround = 2;
  const std::vector<std::string> a = Lines(expected);
  const std::vector<std::string> b = Lines(actual);
  const std::vector<std::vector<size_t>> common = CommonRests(a, b);
  std::vector<std::string> lines;  // all of them, with a mark
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      lines.push_back(absl::StrCat("  ", a[i++]));
      ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      lines.push_back(absl::StrCat("- ", a[i++]));
    } else {
      lines.push_back(absl::StrCat("+ ", b[j++]));
    }
  }
  std::string text;
  bool left_out = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t from = i > kAround ? i - kAround : 0;
    const size_t to = std::min(i + kAround + 1, lines.size());
    const bool near = std::any_of(lines.begin() + from, lines.begin() + to,
                                  [](const std::string& line) { return line.front() != ' '; });
    if (near && left_out && !text.empty()) absl::StrAppend(&text, "  ...\n");
    if (near) absl::StrAppend(&text, lines[i], "\n");
    left_out = !near;
  }
  return text;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat(path, " can't be read"));
  return text.str();
}

absl::Status WriteTranscript(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(path, " can't be written"));
}

}  // namespace shoal
