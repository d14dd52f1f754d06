#include "metrics/metric_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricSheetTest, WritesNameTypeMeaningAndValue) {
  MetricSheet sheet;
  sheet.Set(Metric::kServerReceivedBytes, 1024);
  sheet.Set(Metric::kServerSlots, 3, "free");
  EXPECT_EQ(sheet.Text(),
            "# HELP shoal_server_received_bytes_total Payload of contributions that has landed.\n"
            "# TYPE shoal_server_received_bytes_total counter\n"
            "shoal_server_received_bytes_total 1024\n"
            "# HELP shoal_server_slots Slots of the open groups, free and in use.\n"
            "# TYPE shoal_server_slots gauge\n"
            "shoal_server_slots{state=\"free\"} 3\n");
}

TEST(MetricSheetTest, WritesALabelFromAUserAsText) {
  MetricSheet sheet;
  sheet.Set(Metric::kJobRanks, 2, "a\"} 1\nshoal_job_ranks{job=\"b\\");
  EXPECT_THAT(sheet.Text(), HasSubstr("shoal_job_ranks{job=\"a\\\"} 1\\nshoal_job_ranks{job=\\\"b\\\\\"} 2\n"));
}

TEST(MetricSheetTest, WhatATerminalObeysIsEscapedInALabel) {
  MetricSheet sheet;
  sheet.Set(Metric::kJobRanks, 2, "a\x1b[2J\xff");
  EXPECT_THAT(sheet.Text(), HasSubstr("shoal_job_ranks{job=\"a\\\\x1b[2J\\\\xff\"} 2\n"));
}

TEST(MetricSheetTest, WritesAHistogramWithItsSumAndInfinity) {
  MetricSheet sheet;
  sheet.Set(Metric::kSchedulerSaveSeconds, HistogramValue{{{0.001, 4}, {0.01, 6}}, 7, 1.5});
  const std::string text = sheet.Text();
  EXPECT_THAT(text, HasSubstr("shoal_scheduler_save_seconds_count 7\n"));
  EXPECT_THAT(text, HasSubstr("shoal_scheduler_save_seconds_sum 1.5\n"));
  EXPECT_THAT(text, HasSubstr("shoal_scheduler_save_seconds_bucket{le=\"0.01\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("shoal_scheduler_save_seconds_bucket{le=\"+Inf\"} 7\n"));
}

TEST(MetricSheetTest, AHistogramMayHaveALabel) {
  MetricSheet sheet;
  sheet.Set(Metric::kJobOpDuration, HistogramValue{{{0.001, 4}}, 7, 1.5}, "gpt");
  EXPECT_THAT(sheet.Text(), HasSubstr("shoal_job_op_duration_seconds_bucket{job=\"gpt\",le=\"0.001\"} 4\n"));
}

TEST(MetricSheetTest, LeavesOutWhatWasNotSet) {
  MetricSheet sheet;
  sheet.SetProcess(5);
  EXPECT_THAT(sheet.Text(), HasSubstr("shoal_log_events_left_out_total 5\n"));
  EXPECT_THAT(sheet.Text(), Not(HasSubstr("shoal_server_")));
}

}  // namespace
}  // namespace shoal
