-- entry(sumWith, added, form): the member for a grant of `added` units, with which `sumWith` are granted.
-- Refunds, and grants whose units were given back, have a form of their own.
local function entry(sumWith, added, form)
  local low = sumWith % 1000000
  local high = (sumWith % 100000000000 - low) / 1000000 + 100000
  return string.format(form or added == 1 and '%06d%06d' or '%06d%06d:%d', high, low, added)
end
