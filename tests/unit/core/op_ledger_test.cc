#include "core/op_ledger.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr uint32_t kChunkBytes = 1024;  // 256 fp32

FrameHeader Push(uint64_t op, uint64_t bucket_elements = 600, uint32_t chunk = 0, uint32_t rank = 0) {
  FrameHeader header;
  header.type = FrameType::kPush;
  header.op = OpNumber(op);
  header.bucket_elements = bucket_elements;
  header.chunk = ChunkNumber(chunk);
  header.rank = Rank(rank);
  const BucketPlan plan = *MakeBucketPlan(bucket_elements, WireCodec(DataType::kFloat32), kChunkBytes);
  header.first_element = plan.FirstElement(ChunkNumber(chunk));
  header.chunk_elements = plan.ElementCount(ChunkNumber(chunk));
  return header;
}

TEST(OpLedger, TheFirstPushRegistersTheLayout) {
  OpLedger ledger(kChunkBytes);
  const OpRecord* record = nullptr;
  ASSERT_EQ(ledger.Admit(Push(1, 600, 2, 3), &record), Refusal::kNone);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->op, OpNumber(1));
  EXPECT_EQ(record->plan.chunk_count, 3u);
  EXPECT_EQ(record->registered_by, Rank(3));
  EXPECT_EQ(record->summed.size(), 3u);
  EXPECT_EQ(ledger.Find(OpNumber(1)), record);
  EXPECT_EQ(ledger.Find(OpNumber(2)), nullptr);
  const OpRecord* again = nullptr;
  EXPECT_EQ(ledger.Admit(Push(1, 600, 0, 1), &again), Refusal::kNone);
  EXPECT_EQ(again, record);
  EXPECT_EQ(record->registered_by, Rank(3));
}

TEST(OpLedger, RanksThatDisagreeAreFoundByEveryFieldOfTheLayout) {
  OpLedger ledger(kChunkBytes);
  const OpRecord* record = nullptr;
  FrameHeader first = Push(1);
  first.premul_factor = 0.0;
  first.reduce_op = ReduceOp::kPremulSum;
  ASSERT_EQ(ledger.Admit(first, &record), Refusal::kNone);
  const auto admit = [&](auto change) {
    FrameHeader push = first;
    change(&push);
    record = nullptr;
    const Refusal refusal = ledger.Admit(push, &record);
    EXPECT_NE(record, nullptr) << "the caller says who registered the other layout";
    return refusal;
  };
  EXPECT_EQ(admit([](FrameHeader* h) { h->bucket_elements = 601; }), Refusal::kLayoutMismatch);
  EXPECT_EQ(admit([](FrameHeader* h) { h->codec = WireCodec(DataType::kInt32); }), Refusal::kLayoutMismatch);
  EXPECT_EQ(admit([](FrameHeader* h) { h->reduce_op = ReduceOp::kMax; }), Refusal::kLayoutMismatch);
  EXPECT_EQ(admit([](FrameHeader* h) { h->premul_factor = 2.0; }), Refusal::kLayoutMismatch);
  EXPECT_EQ(admit([](FrameHeader* h) { h->premul_factor = -0.0; }), Refusal::kLayoutMismatch)
      << "the sum would have the sign of whichever rank came first";
  EXPECT_EQ(admit([](FrameHeader* h) { h->rank = Rank(1); }), Refusal::kNone);
}

TEST(OpLedger, ATensorOfTheTypeOnTheWireIsNoFloat32ThatWasConverted) {
  for (const WireFormat wire : {WireFormat::kBfloat16, WireFormat::kInt8}) {
    OpLedger ledger(kChunkBytes);
    const OpRecord* record = nullptr;
    FrameHeader push = Push(1, 100);
    push.codec = WireCodec(DataType::kFloat32, wire);
    ASSERT_EQ(ledger.Admit(push, &record), Refusal::kNone);
    push.codec = *WireCodec::FromWire(push.codec.type_number(), /*narrowed=*/false);
    EXPECT_EQ(ledger.Admit(push, &record), Refusal::kLayoutMismatch) << WireFormatName(wire);
  }
}

TEST(OpLedger, AChunkThatDoesNotLieInThePlanIsMalformed) {
  for (bool registered : {false, true}) {
    OpLedger ledger(kChunkBytes);
    const OpRecord* record = nullptr;
    if (registered) {
      ASSERT_EQ(ledger.Admit(Push(1), &record), Refusal::kNone);
    }
    const auto admit = [&](auto change) {
      FrameHeader push = Push(1, 600, 1);
      change(&push);
      return ledger.Admit(push, &record);
    };
    EXPECT_EQ(admit([](FrameHeader* h) { h->chunk = ChunkNumber(3); }), Refusal::kMalformed);
    EXPECT_EQ(admit([](FrameHeader* h) { h->chunk = ChunkNumber(0); }), Refusal::kMalformed);
    EXPECT_EQ(admit([](FrameHeader* h) { ++h->first_element; }), Refusal::kMalformed);
    EXPECT_EQ(admit([](FrameHeader* h) { --h->chunk_elements; }), Refusal::kMalformed);
    EXPECT_EQ(ledger.Find(OpNumber(1)) != nullptr, registered) << "a malformed push must not register anything";
  }
  OpLedger ledger(kChunkBytes);
  const OpRecord* record = nullptr;
  FrameHeader huge = Push(1);
  huge.bucket_elements = UINT64_MAX;
  EXPECT_EQ(ledger.Admit(huge, &record), Refusal::kMalformed);
}

TEST(OpLedger, CommittedOpsAreStaleAndTheirRecordsAreUsedAgain) {
  OpLedger ledger(kChunkBytes);
  const OpRecord* record = nullptr;
  ASSERT_EQ(ledger.Admit(Push(1), &record), Refusal::kNone);
  ledger.NoteSummed(record->op, ChunkNumber(0));
  ledger.Commit(OpNumber(1));
  EXPECT_EQ(ledger.Find(OpNumber(1)), nullptr);
  EXPECT_EQ(ledger.Admit(Push(1), &record), Refusal::kStaleOp);
  ledger.Commit(OpNumber(0));
  EXPECT_EQ(ledger.watermark(), OpNumber(1)) << "a watermark never goes back";
  ASSERT_EQ(ledger.Admit(Push(1 + kMaxUncommittedOps), &record), Refusal::kNone);
  EXPECT_EQ(record->summed, std::vector<bool>(3, false));
  EXPECT_EQ(ledger.Admit(Push(2 + kMaxUncommittedOps), &record), Refusal::kNoSlot);
  ledger.Commit(OpNumber(UINT64_MAX));
  EXPECT_EQ(ledger.Admit(Push(400), &record), Refusal::kStaleOp);
}

// Of an op with that many chunks.
FrameHeader PushOfChunks(uint64_t op, uint64_t chunks) { return Push(op, chunks * kChunkBytes / sizeof(float)); }

TEST(Invariant, I7AnOpLedgerDoesNotGrowWithTheSizesThatAreClaimed) {
  const uint64_t largest = kMaxChunksPerBucket / kDealUnit * kDealUnit;
  const uint64_t fit = kMaxUncommittedChunks / largest;
  OpLedger ledger(kChunkBytes);
  const OpRecord* record = nullptr;
  for (uint64_t op = 1; op <= fit; ++op) ASSERT_EQ(ledger.Admit(PushOfChunks(op, largest), &record), Refusal::kNone);
  EXPECT_EQ(ledger.Admit(PushOfChunks(fit + 1, largest), &record), Refusal::kNoSlot);
  EXPECT_EQ(ledger.Find(OpNumber(fit + 1)), nullptr);
  EXPECT_EQ(ledger.Admit(PushOfChunks(1, largest), &record), Refusal::kNone) << "what is known stays known";
  ledger.Commit(OpNumber(1));
  EXPECT_EQ(ledger.Admit(PushOfChunks(fit + 1, largest), &record), Refusal::kNone);
  EXPECT_EQ(ledger.Admit(PushOfChunks(fit + 2, largest), &record), Refusal::kNoSlot);
  ledger.Restart();
  for (uint64_t op = 2; op < 2 + fit; ++op) ASSERT_EQ(ledger.Admit(PushOfChunks(op, largest), &record), Refusal::kNone);
  ledger.Commit(OpNumber(kMaxUncommittedOps * 10));
  ASSERT_EQ(ledger.Admit(PushOfChunks(kMaxUncommittedOps * 10 + 1, largest), &record), Refusal::kNone);
  EXPECT_EQ(record->summed, std::vector<bool>(largest, false));
}

TEST(OpLedger, AnnouncesOnceForSoManyOps) {
  OpLedger ledger(kChunkBytes);
  EXPECT_FALSE(ledger.TakeAnnouncement());
  ledger.Commit(OpNumber(kCommitAnnounceOps - 1));
  EXPECT_FALSE(ledger.TakeAnnouncement());
  ledger.Commit(OpNumber(kCommitAnnounceOps));
  EXPECT_TRUE(ledger.TakeAnnouncement());
  EXPECT_FALSE(ledger.TakeAnnouncement());
  ledger.Commit(OpNumber(UINT64_MAX));
  EXPECT_TRUE(ledger.TakeAnnouncement());
}

// Workers and shards as far as ops, landings and watermarks go, with messages that arrive in any order. Each op has
// chunks on some shards, perhaps on none.
class WatermarkModel {
 public:
  WatermarkModel(uint32_t ranks, uint32_t shards, uint64_t ops, uint64_t seed)
      : random_(seed), op_count_(ops), workers_(ranks), shards_(shards) {
    for (Shard& shard : shards_) shard.landed.assign(ranks, 0);
    owners_.resize(ops + 1);
    for (uint64_t op = 1; op <= ops; ++op) {
      // Long runs without any chunk, and long runs with all chunks on one shard, are what strains the bound.
      const uint64_t kind = (op / 300 + seed) % 3;
      if (kind == 0) owners_[op] = {static_cast<uint32_t>(random_() % shards)};
      if (kind == 1 && random_() % 50 == 0) owners_[op] = {static_cast<uint32_t>(seed % shards)};
      if (kind == 2) owners_[op] = {static_cast<uint32_t>(seed % shards)};
    }
  }

  // True when all ops landed everywhere; false when nobody can go on.
  bool Run() {
    while (true) {
      // A different rank is favoured in each stretch, so that ranks drift apart as far as the rules let them.
      const uint32_t favoured = static_cast<uint32_t>(random_() % workers_.size());
      bool progress = false;
      for (int step = 0; step < 200; ++step) {
        const auto rank = static_cast<uint32_t>(random_() % 4 != 0 ? favoured : random_() % workers_.size());
        progress = Advance(rank) || progress;
        if (random_() % 3 != 0) progress = Deliver() || progress;
      }
      if (std::all_of(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.landed == op_count_; })) {
        return true;
      }
      if (progress) continue;
      // Quiet: what was held back by a delay (commit notes) goes out now.
      bool any = false;
      for (uint32_t r = 0; r < workers_.size(); ++r) any = Advance(r) || any;
      for (uint32_t r = 0; r < workers_.size(); ++r) any = SendCommits(r) || any;
      while (Deliver()) any = true;
      if (!any) return false;
    }
  }

  uint64_t refused() const { return refused_; }
  uint64_t largest_lead() const { return largest_lead_; }

 private:
  struct Worker {
    uint64_t next = 1;
    uint64_t landed = 0;
    uint64_t commit = 0;
    std::map<uint64_t, uint32_t> missing;  // chunks of pushed ops that have not come back
    std::map<uint32_t, uint64_t> told;     // by shard
  };
  struct Shard {
    OpLedger ledger{kChunkBytes};
    std::vector<uint64_t> landed;
    std::map<uint64_t, uint32_t> contributions;
  };
  struct Message {
    bool to_shard = false;
    uint32_t shard = 0;
    uint32_t rank = 0;
    uint64_t op = 0;  // 0: a watermark alone
    uint64_t landed = 0;
    uint64_t commit = 0;
  };

  bool Advance(uint32_t rank) {
    Worker& worker = workers_[rank];
    if (worker.next > op_count_ || !MayPushOp(OpNumber(worker.next), OpNumber(worker.commit))) return false;
    const uint64_t op = worker.next++;
    worker.missing[op] = static_cast<uint32_t>(owners_[op].size());
    UpdateLanded(&worker);
    for (uint32_t shard : owners_[op]) {
      worker.told[shard] = worker.landed;
      network_.push_back({true, shard, rank, op, worker.landed, worker.commit});
    }
    return true;
  }

  void UpdateLanded(Worker* worker) {
    while (!worker->missing.empty() && worker->missing.begin()->second == 0) {
      worker->landed = worker->missing.begin()->first;
      worker->missing.erase(worker->missing.begin());
    }
  }

  bool SendCommits(uint32_t rank) {
    Worker& worker = workers_[rank];
    bool any = false;
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      if (worker.told[shard] >= worker.landed) continue;
      worker.told[shard] = worker.landed;
      network_.push_back({true, shard, rank, 0, worker.landed, worker.commit});
      any = true;
    }
    return any;
  }

  bool Deliver() {
    if (network_.empty()) return false;
    std::swap(network_[random_() % network_.size()], network_.back());
    const Message message = network_.back();
    network_.pop_back();
    if (message.to_shard) {
      AtShard(message);
    } else {
      Worker& worker = workers_[message.rank];
      worker.commit = std::max(worker.commit, message.commit);
      if (message.op != 0) --worker.missing[message.op];
      UpdateLanded(&worker);
    }
    return true;
  }

  void AtShard(const Message& message) {
    Shard& shard = shards_[message.shard];
    shard.landed[message.rank] = std::max(shard.landed[message.rank], message.landed);
    const uint64_t everywhere = *std::min_element(shard.landed.begin(), shard.landed.end());
    shard.ledger.Commit(OpNumber(std::max(everywhere, message.commit)));
    if (shard.ledger.TakeAnnouncement()) {
      for (uint32_t r = 0; r < workers_.size(); ++r) {
        network_.push_back({false, message.shard, r, 0, 0, shard.ledger.watermark().value()});
      }
    }
    if (message.op == 0) return;
    largest_lead_ = std::max(largest_lead_, message.op - shard.ledger.watermark().value());
    const OpRecord* record = nullptr;
    if (shard.ledger.Admit(Push(message.op, 10, 0, message.rank), &record) != Refusal::kNone) {
      ++refused_;
      return;
    }
    if (++shard.contributions[message.op] < workers_.size()) return;
    shard.ledger.NoteSummed(record->op, ChunkNumber(0));
    for (uint32_t r = 0; r < workers_.size(); ++r) {
      network_.push_back({false, message.shard, r, message.op, 0, shard.ledger.watermark().value()});
    }
  }

  std::mt19937_64 random_;
  uint64_t op_count_;
  std::vector<std::vector<uint32_t>> owners_;  // by op
  std::vector<Worker> workers_;
  std::vector<Shard> shards_;
  std::vector<Message> network_;
  uint64_t refused_ = 0;
  uint64_t largest_lead_ = 0;
};

TEST(OpLedger, AnHonestWorkerIsNeverRefusedAndNeverStuck) {
  uint64_t largest_lead = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto ranks = static_cast<uint32_t>(1 + seed % 5);
    const auto shards = static_cast<uint32_t>(1 + seed % 4);
    WatermarkModel model(ranks, shards, 1500, seed);
    EXPECT_TRUE(model.Run()) << "stuck: seed " << seed << ", " << ranks << " ranks, " << shards << " shards";
    EXPECT_EQ(model.refused(), 0u) << "seed " << seed << ", " << ranks << " ranks, " << shards << " shards";
    largest_lead = std::max(largest_lead, model.largest_lead());
  }
  EXPECT_EQ(largest_lead, kMaxUncommittedOps) << "the model no longer strains the bound that it is about";
}

}  // namespace
}  // namespace shoal
