// Cuts bytes into pieces where their content says so: bytes that are changed, put in or taken out change the piece in
// which they are and rarely the ones beside it, and all others stay the same bytes, wherever they lie then.
//
// A hash of the last 64 bytes is taken at every byte, and a piece ends where it is small (cuts by content:
// Muthitacharoen, Chen and Mazieres, "A low-bandwidth network file system", SOSP 2001; the hash, "gear", and no look
// for a cut before a piece has its least size: Xia et al., "FastCDC", USENIX ATC 2016, without its second mask). To
// cut otherwise one day makes nothing unreadable; the first save by other cuts writes every piece.
//
// Pure; any thread.
#ifndef SHOAL_SCHEDULER_STORE_CONTENT_PIECES_H_
#define SHOAL_SCHEDULER_STORE_CONTENT_PIECES_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace shoal::scheduler {

// After a small change two pieces are written, of twice the mean size together. Smaller ones would be less to write
// then, and more keys and operations for all of a state. The least size bounds how many pieces there are, the most how
// large one is whose content says nowhere to cut (equal bytes, for example; of random bytes one in 10^9 is as large).
inline constexpr size_t kLeastPieceBytes = size_t{1} << 10;  // but for the last one
inline constexpr size_t kMeanPieceBytes = size_t{4} << 10;
inline constexpr size_t kMostPieceBytes = size_t{64} << 10;

// One after the other they are `bytes`, in which they lie. Of nothing there is none.
std::vector<std::string_view> CutByContent(std::string_view bytes);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_CONTENT_PIECES_H_
