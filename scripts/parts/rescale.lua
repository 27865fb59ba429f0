-- rescale(x, from, to): x * to / from rounded down, for 0 <= x < from, and whether that lost anything. Digit
-- by binary digit of `to`, since the product may leave 2^53.
local function rescale(x, from, to)
  local scaled, rest, bit = 0, 0, 4503599627370496
  for _ = 1, 53 do
    scaled, rest = scaled * 2, rest * 2
    if rest >= from then
      scaled, rest = scaled + 1, rest - from
    end
    if to >= bit then
      to, rest = to - bit, rest + x
      if rest >= from then
        scaled, rest = scaled + 1, rest - from
      end
    end
    bit = bit / 2
  end
  return scaled, rest > 0
end
