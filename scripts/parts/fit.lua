-- fit(left, cost, count): how many of `count` requests of `cost` units each fit into `left` units. A look (cost 0) always
-- fits. left >= 0.
local function fit(left, cost, count)
  if cost == 0 or left >= cost * count then
    return count
  end
  return math.floor(left / cost)
end
