// What workers and servers say to each other, as text for reading (tests/scenario/transcripts) that is compared.
#include "tests/scenario/transcript.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scenario/narrated_cluster.h"

namespace shoal {
namespace {

constexpr char kRewrite[] = "SHOAL_REWRITE_TRANSCRIPTS";

std::vector<std::string> TranscriptFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(SHOAL_TRANSCRIPTS)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string TestName(const testing::TestParamInfo<std::string>& file) {
  return std::filesystem::path(file.param).stem().string();
}

class TranscriptTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Scenario, TranscriptTest, testing::ValuesIn(TranscriptFiles()), TestName);

TEST_P(TranscriptTest, IsWhatTheProcessesSay) {
  const absl::StatusOr<std::string> recorded = ReadFile(GetParam());
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  ASSERT_THAT(*recorded, testing::StartsWith("# ")) << "it begins with a sentence on what it shows";
  absl::StatusOr<Transcript> transcript = ParseTranscript(*recorded);
  ASSERT_TRUE(transcript.ok()) << GetParam() << ": " << transcript.status();
  NarratedCluster cluster;
  for (TranscriptStep& step : transcript->steps) {
    absl::StatusOr<std::vector<std::string>> said = cluster.Do(step.command);
    ASSERT_TRUE(said.ok()) << GetParam() << ", \"" << step.command << "\": " << said.status();
    step.output = *std::move(said);
  }
  const std::string now = TranscriptText(*transcript);
  EXPECT_EQ(now.find("ARE WRONG"), std::string::npos) << now;
  if (std::getenv(kRewrite) != nullptr) {
    ASSERT_TRUE(WriteTranscript(GetParam(), now).ok());
    return;
  }
  EXPECT_TRUE(*recorded == now) << GetParam() << " (-) differs from what the processes say now (+):\n"
                                << LineDifference(*recorded, now) << "If that is meant: " << kRewrite
                                << "=1 build/tests/transcript_test, then read `git diff`.";
}

TEST(Transcript, KeepsItsTextThroughParsing) {
  const std::string text =
      "# What it shows.\n\none two=3\n----\nsaid\nsaid more\n\n# Then.\nfour\n----\n\n# The end.\n";
  const absl::StatusOr<Transcript> transcript = ParseTranscript(text);
  ASSERT_TRUE(transcript.ok()) << transcript.status();
  ASSERT_EQ(transcript->steps.size(), 2u);
  EXPECT_EQ(transcript->steps[0].command, "one two=3");
  EXPECT_THAT(transcript->steps[0].output, testing::ElementsAre("said", "said more"));
  EXPECT_TRUE(transcript->steps[1].output.empty());
  EXPECT_EQ(TranscriptText(*transcript), text);
  EXPECT_EQ(ParseTranscript("# A\ncommand\n").status(),
            absl::InvalidArgumentError("line 2: no ---- after \"command\""));
}

TEST(Transcript, ADifferenceShowsTheLinesAroundIt) {
  EXPECT_EQ(LineDifference("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(LineDifference("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\nfour\n5\n6\n7\n8\n9\nten\n"),
            "  2\n  3\n- 4\n+ four\n  5\n  6\n  ...\n  8\n  9\n+ ten\n");
}

TEST(NarratedCluster, RefusesWhatIsNoCommand) {
  NarratedCluster cluster;
  EXPECT_FALSE(cluster.Do("all-reduce 7 elements=1").ok()) << "there is no cluster";
  EXPECT_FALSE(cluster.Do("cluster ranks=2").ok());
  EXPECT_TRUE(cluster.Do("cluster ranks=2 servers=1").ok());
  EXPECT_FALSE(cluster.Do("cluster ranks=2 servers=1").ok());
  EXPECT_FALSE(cluster.Do("open-gruop 7").ok());
  EXPECT_FALSE(cluster.Do("open-group 7 ranks=2").ok()) << "ranks are 0 and 1";
  EXPECT_FALSE(cluster.Do("close-group 7").ok()) << "it was not opened";
  EXPECT_FALSE(cluster.Do("kill-server 1").ok()) << "there is one server, number 0";
}

}  // namespace
}  // namespace shoal
