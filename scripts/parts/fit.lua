-- fit(left, cost, count): how many of `count` requests of `cost` units each fit into `left` units, left >= 0. A look,
-- of cost 0, always fits.
local function fit(left, cost, count)
  if cost == 0 or left >= cost * count then
    return count
  end
  return math.floor(left / cost)
end
