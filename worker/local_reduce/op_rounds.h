// How an op goes through the shared memory of a node's ranks: in rounds, each of which fills one slot of it.
//
// A round takes the next piece of every part: each rank contributes its pieces, reduces that of its own part, and
// collects the others' results. A small tensor is one round, for which every rank contributes all of it and reduces
// all of it: one hand-over instead of two, and the same bits. Pure: all ranks must come to the same.
#ifndef SHOAL_WORKER_LOCAL_REDUCE_OP_ROUNDS_H_
#define SHOAL_WORKER_LOCAL_REDUCE_OP_ROUNDS_H_

#include <algorithm>
#include <cstdint>

#include "core/node_parts.h"
#include "core/wire_codec.h"
#include "worker/local_reduce/node_memory.h"

namespace shoal {

struct OpRounds {
  uint64_t element_count = 0;
  uint32_t ranks = 1;
  bool whole = false;           // every rank reduces all of it
  uint64_t piece_elements = 0;  // of each part in a round
  uint64_t count = 0;           // of rounds; at least 1

  // Elements lie in shared memory as the codec has them on the wire.
  static OpRounds Of(uint64_t element_count, WireCodec codec, bool other_nodes, uint32_t ranks) {
    OpRounds rounds{.element_count = element_count, .ranks = ranks};
    const uint64_t place_elements = codec.ElementsIn(PlaceBytes(ranks));
    rounds.whole = !other_nodes && element_count <= place_elements;
    rounds.piece_elements = rounds.whole ? element_count : place_elements;
    const uint64_t part_elements = rounds.whole ? element_count : NodePart(element_count, ranks, 0).count;
    rounds.count = (part_elements + rounds.piece_elements - 1) / rounds.piece_elements;
    return rounds;
  }

  // What `rank` reduces in a round. May be empty.
  ElementRange Piece(uint32_t rank, uint64_t round) const {
    if (whole) return {.first = 0, .count = element_count};
    const ElementRange part = NodePart(element_count, ranks, rank);
    const uint64_t before = std::min(part.count, round * piece_elements);
    return {.first = part.first + before, .count = std::min(piece_elements, part.count - before)};
  }
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LOCAL_REDUCE_OP_ROUNDS_H_
