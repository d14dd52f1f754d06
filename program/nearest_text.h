// Which of some words was meant, for "did you mean". Pure; any thread.
#ifndef SHOAL_PROGRAM_NEAREST_TEXT_H_
#define SHOAL_PROGRAM_NEAREST_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace shoal {

// Levenshtein's distance.
inline size_t EditDistance(const std::string& left, const std::string& right) {
  std::vector<size_t> row(right.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= left.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= right.size(); ++j) {
      const size_t replaced = diagonal + (left[i - 1] == right[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[right.size()];
}

// " (did you mean WORD?)" with the nearest of the words; empty: none is so near that this is a typing error.
inline std::string DidYouMean(const std::string& text, const std::vector<std::string>& words) {
  const std::string* nearest = nullptr;
  size_t nearest_distance = 4;
  for (const std::string& word : words) {
    const size_t distance = EditDistance(text, word);
    if (distance < nearest_distance && distance < word.size() / 2) {
      nearest = &word;
      nearest_distance = distance;
    }
  }
  return nearest == nullptr ? "" : " (did you mean " + *nearest + "?)";
}

}  // namespace shoal

#endif  // SHOAL_PROGRAM_NEAREST_TEXT_H_
