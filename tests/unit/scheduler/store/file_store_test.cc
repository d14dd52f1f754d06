// The state file: what it survives and what it refuses; and the bytes in it.
#include "scheduler/store/file_store.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include "core/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/store/state_codec.h"
#include "shoal/v1/state.pb.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

class FileStoreTest : public ::testing::Test {
 protected:
  FileStoreTest() {
    std::string pattern = ::testing::TempDir() + "/shoal-file-store-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/state";
  }
  ~FileStoreTest() override { std::filesystem::remove_all(folder_); }

  absl::Status Save(const std::string& state) {
    auto store = FileStore::Open(path_);
    if (!store.ok()) return store.status();
    std::promise<void> done;
    (*store)->SetWake([&] { done.set_value(); });
    (*store)->StartSave(1, state);
    done.get_future().wait();
    return (*store)->PollSaved()->status;
  }

  absl::StatusOr<std::optional<std::string>> Load() {
    auto store = FileStore::Open(path_);
    if (!store.ok()) return store.status();
    return (*store)->Load();
  }

  std::string ReadFile() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void WriteFile(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  std::string folder_;
  std::string path_;
};

TEST_F(FileStoreTest, AnotherProcessFindsTheState) {
  ASSERT_TRUE(Save("hello").ok());
  EXPECT_EQ(**Load(), "hello");
}

TEST_F(FileStoreTest, AnyDamageIsNoticedAndNamed) {
  ASSERT_TRUE(Save("hello, state").ok());
  const std::string good = ReadFile();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    WriteFile(path_, bad);
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << i;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  }
  for (size_t size = 0; size < good.size(); ++size) {
    WriteFile(path_, good.substr(0, size));
    EXPECT_EQ(Load().status().code(), absl::StatusCode::kDataLoss) << "cut to " << size;
  }
  WriteFile(path_, good + "x");
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(FileStoreTest, AForeignFileIsRefusedAndLeftAlone) {
  WriteFile(path_, "dear diary, today I trained a model and it was good");
  const absl::Status status = Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was not written by this version of shoal-scheduler"));
  EXPECT_THAT(ReadFile(), HasSubstr("dear diary"));
}

TEST_F(FileStoreTest, AHalfWrittenNewFileDoesNotMatter) {
  ASSERT_TRUE(Save("good").ok());
  WriteFile(path_ + ".new", "half of the ne");
  EXPECT_EQ(**Load(), "good");
  ASSERT_TRUE(Save("better").ok());
  EXPECT_EQ(**Load(), "better");
}

TEST_F(FileStoreTest, OnlyOneSchedulerAtATime) {
  const auto first = FileStore::Open(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status status = FileStore::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("in use by another scheduler"));
}

TEST_F(FileStoreTest, NoFolderIsToldAtOnce) {
  const absl::Status status = FileStore::Open(folder_ + "/missing/state").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing/state"));
}

TEST_F(FileStoreTest, AFailedSaveIsToldAndKeepsTheFormerState) {
  ASSERT_TRUE(Save("former").ok());
  std::filesystem::create_directory(path_ + ".new");  // so that the new file can't be created
  EXPECT_FALSE(Save("latter").ok());
  std::filesystem::remove(path_ + ".new");
  EXPECT_EQ(**Load(), "former");
}

TEST(StateCodecTest, WhatIsSavedComesBack) {
  PersistedState state;
  state.cluster_id = "0123456789abcdef";
  state.token_key.fill(std::byte{0x5a});
  state.epoch = Epoch(17);
  state.next_server_id = 4;
  state.next_job_id = 6;
  state.next_group_id = 8;
  state.reserved_event_numbers = 1024;
  ServerState server;
  server.id = ServerId(3);
  server.name = "shoal-0";
  server.incarnation = Incarnation(UINT64_MAX);
  server.evicted_incarnation = Incarnation(5);
  server.draining = true;
  server.phase = MemberPhase::kLost;
  server.reason = "no heartbeat";
  server.node = "h";
  server.boot_id = "boot 1";
  server.addresses = {"1.2.3.4:5", "1.2.3.4:6"};
  server.weight = 2;
  server.slot_memory_bytes = 1ull << 40;
  server.transports = "tcp";
  server.software_version = "0.1.0";
  server.registered_at_unix_ms = 99;
  state.servers = {server};
  JobState job;
  job.id = JobId(5);
  job.name = "gpt";
  job.world_size = 4;
  job.phase = JobPhase::kFailed;
  job.started_at_unix_ms = 1234;
  job.failure = "rank 2 was lost";
  for (const uint32_t rank : {0, 1, 2}) job.ranks[JobRank(rank)] = {.incarnation = Incarnation(8), .node = "g"};
  job.ranks[JobRank(0)].node_reduce = {.choice = 2, .possible = true, .node_identity = "boot 2", .can_rails = true};
  job.ranks[JobRank(1)].node_reduce = {.possible = true, .node_identity = "boot 1"};
  job.ranks[JobRank(2)].node_reduce = {.choice = 1, .node_identity = "boot 2"};
  job.ranks[JobRank(0)].boot_id = "boot 3";
  job.ranks[JobRank(2)].boot_id = "boot 1";
  job.ranks[JobRank(3)] = {
      .incarnation = Incarnation(9), .phase = MemberPhase::kLeft, .reason = "r", .node = "h", .pid = 7};
  job.groups = {{.id = GroupId(7),
                 .name = "world",
                 .epoch = Epoch(2),
                 .ranks = {JobRank(3), JobRank(0)},
                 .max_chunk_bytes = 65536,
                 .wire = WireFormat::kBfloat16,
                 .opening = {.epoch = Epoch(1),
                             .credit_chunks = 3,
                             .look_ahead_chunks = 5,
                             .link = {.bytes_per_s = 6, .round_trip_ns = 7, .message_ns = 8, .within_node = true},
                             .busiest_port = 1.5,
                             .busiest_link = 2.5,
                             .answered = {{Incarnation(9), 1}, {Incarnation(8), UINT64_MAX}}},
                 .failure = "rank 1 on h: aborted",
                 .ends_with_aborted = true,
                 .all_committed = true},
                {.id = GroupId(6),
                 .name = "node",
                 .epoch = Epoch(2),
                 .ranks = {JobRank(3), JobRank(0)},
                 .node_reduce = NodeReduceMode::kNodeAlone},
                {.id = GroupId(8),
                 .name = "rails",
                 .epoch = Epoch(2),
                 .ranks = {JobRank(2), JobRank(1)},
                 .node_reduce = NodeReduceMode::kRails,
                 .rail = RailState{.first_rail = GroupId(7),
                                   .index = 1,
                                   .group_ranks = {JobRank(0), JobRank(1), JobRank(2), JobRank(3)},
                                   .layout = {.ranks_per_node = 2, .by_node = {Rank(0), Rank(2), Rank(3), Rank(1)}}}}};
  JobState open{.id = JobId(4), .name = "open", .world_size = 70, .min_ranks = 2};
  open.ranks[JobRank(69)] = {.incarnation = Incarnation(8), .node = "g", .identity = "trainer-a"};
  open.ranks[JobRank(68)] = {.incarnation = Incarnation(9), .phase = MemberPhase::kLost, .reason = "r", .node = "h"};
  open.groups = {{.id = GroupId(9),
                  .name = "goes on",
                  .epoch = Epoch(3),
                  .ranks = {JobRank(68), JobRank(69)},
                  .gone = {JobRank(68)},
                  .min_ranks = 1,
                  .lost = {JobRank(68)},
                  .sealed_roster = SealRoster(TokenKey(), GroupId(9), Epoch(3), Roster(2, {Rank(0)}))}};
  state.jobs = {open, job};
  const auto decoded = DecodeState(EncodeState(state));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, state);
}

// The first rail of ranks 0 to 3, of which two are on each node.
RailState FirstRail() {
  return {.first_rail = GroupId(1),
          .index = 0,
          .group_ranks = {JobRank(0), JobRank(1), JobRank(2), JobRank(3)},
          .layout = {.ranks_per_node = 2, .by_node = {Rank(0), Rank(1), Rank(2), Rank(3)}}};
}

JobState JobWithRail(const std::optional<RailState>& rail) {
  JobState job;
  job.world_size = 4;
  for (uint32_t rank = 0; rank < 4; ++rank) job.ranks[JobRank(rank)] = {.incarnation = Incarnation(8)};
  job.groups = {{.id = GroupId(1),
                 .name = "world",
                 .ranks = {JobRank(0), JobRank(2)},
                 .node_reduce = NodeReduceMode::kRails,
                 .rail = rail}};
  return job;
}

TEST(StateCodecTest, WhatAnOlderSchedulerDidNotKeepOfLinksIsThatOfPorts) {
  PersistedState older;
  older.cluster_id = "c";
  older.next_job_id = 9;
  older.jobs = {JobWithRail(FirstRail())};
  older.jobs[0].id = JobId(1);
  older.jobs[0].groups[0].opening.busiest_port = 2;
  older.jobs[0].groups[0].opening.busiest_link = 0;
  const absl::StatusOr<PersistedState> read = DecodeState(EncodeState(older));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->jobs.at(0).groups.at(0).opening.busiest_link, 2);
}

TEST(StateCodecTest, NonsenseIsRefused) {
  PersistedState good;
  good.cluster_id = "c";
  struct Case {
    const char* message;
    std::function<void(PersistedState*)> spoil;
  };
  const Case cases[] = {
      {"cluster id", [](PersistedState* s) { s->cluster_id.clear(); }},
      {"not given out", [](PersistedState* s) { s->servers.emplace_back().id = ServerId(1); }},
      {"no phase", [](PersistedState* s) { s->servers.emplace_back().phase = static_cast<MemberPhase>(9); }},
      {"not given out", [](PersistedState* s) { s->jobs.emplace_back().id = JobId(1); }},
      {"no phase", [](PersistedState* s) { s->jobs.emplace_back().phase = static_cast<JobPhase>(0); }},
      {"out of range", [](PersistedState* s) { s->jobs.emplace_back().ranks[JobRank(0)]; }},
      {"never joined it", [](PersistedState* s) { s->jobs.emplace_back().groups = {{.ranks = {JobRank(0)}}}; }},
      {"never joined it", [](PersistedState* s) { s->jobs.emplace_back().groups = {{.opening = {.answered = {{}}}}}; }},
      {"unknown way 3",
       [](PersistedState* s) { s->jobs.emplace_back().groups = {{.node_reduce = static_cast<NodeReduceMode>(3)}}; }},
      {"goes on without rank 0, which is in it",
       [](PersistedState* s) {
         JobState& job = s->jobs.emplace_back();
         job.world_size = 1;
         job.ranks[JobRank(0)];
         job.groups = {{.ranks = {JobRank(0)}, .lost = {JobRank(0)}}};
       }},
      {"does not fit the rails", [](PersistedState* s) { s->jobs = {JobWithRail({})}; }},
      {"does not fit the rails", [](PersistedState* s) { s->jobs = {JobWithRail(RailState())}; }},
      {"does not fit the rails",
       [](PersistedState* s) {
         s->jobs = {JobWithRail(FirstRail())};
         s->jobs[0].groups[0].rail->index = 2;
       }},
      {"does not fit the rails",
       [](PersistedState* s) {
         s->jobs = {JobWithRail(FirstRail())};
         s->jobs[0].groups[0].rail->index = 1;
       }},
      {"does not fit the rails",
       [](PersistedState* s) {
         s->jobs = {JobWithRail(FirstRail())};
         s->jobs[0].groups[0].rail->layout.by_node[3] = Rank(9);
       }},
      {"does not fit the rails",
       [](PersistedState* s) {
         s->jobs = {JobWithRail(FirstRail())};
         s->jobs[0].groups[0].node_reduce = NodeReduceMode::kFlat;
       }},
      {"never joined it",
       [](PersistedState* s) {
         s->jobs = {JobWithRail(FirstRail())};
         s->jobs[0].ranks.erase(JobRank(3));
       }},
  };
  for (const Case& c : cases) {
    PersistedState state = good;
    c.spoil(&state);
    const absl::Status status = DecodeState(EncodeState(state)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
  EXPECT_EQ(DecodeState("\xff\xff\xff\xff garbage").status().code(), absl::StatusCode::kDataLoss);
}

TEST(StateCodecTest, ARankOnANodeThatIsNotListedIsRefused) {
  v1::SchedulerState stored;
  PersistedState good;
  good.cluster_id = "c";
  ASSERT_TRUE(stored.ParseFromString(EncodeState(good)));
  stored.set_next_job_id(2);
  v1::StoredJob* const job = stored.add_jobs();
  job->set_job_id(1);
  job->set_world_size(1);
  job->set_phase(static_cast<uint32_t>(JobPhase::kRunning));
  v1::StoredRank* const rank = job->add_ranks();
  rank->set_phase(static_cast<uint32_t>(MemberPhase::kLive));
  rank->mutable_node_reduce()->set_node(1);
  EXPECT_THAT(std::string(DecodeState(stored.SerializeAsString()).status().message()), HasSubstr("not listed"));
  job->add_node_identities("boot 1");
  const absl::StatusOr<PersistedState> decoded = DecodeState(stored.SerializeAsString());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->jobs[0].ranks.at(JobRank(0)).node_reduce->node_identity, "boot 1");
  EXPECT_EQ(decoded->jobs[0].ranks.at(JobRank(0)).boot_id, "") << "of a scheduler that kept none";
  job->mutable_ranks(0)->set_boot(2);
  job->add_boot_ids("boot 1");
  EXPECT_THAT(std::string(DecodeState(stored.SerializeAsString()).status().message()), HasSubstr("not listed"));
  job->add_boot_ids("boot 2");
  EXPECT_EQ(DecodeState(stored.SerializeAsString())->jobs[0].ranks.at(JobRank(0)).boot_id, "boot 2");
}

}  // namespace
}  // namespace shoal::scheduler
