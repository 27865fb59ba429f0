-- outAfter(units): how long it takes until the members are out that hold the first so many units of the
-- total. Members have at least one unit each where none was given back, so that it is the units-th one at
-- the latest, and that one if all have one. Where some were, those of one moment are looked at together,
-- with what was given back of grants up to that.
local function outAfter(first)
  local final = oldest
  if refunds or first > oldestUnits then
    local low = redis.call('ZRANK', key, oldest[1])
    local members = redis.call('ZCOUNT', key, '-inf', '4503599627370495')
    local high = members - 1
    if not refunds then
      high = math.min(low + first, members) - 1
      low = total == members - low and high or low + 1
    end
    while low < high do
      local middle = (low + high - (low + high) % 2) / 2
      local probe = redis.call('ZRANGE', key, whole(middle), whole(middle), 'WITHSCORES')
      local gone = 0
      if refunds then
        local upTo = whole(probe[2] + 4503599627370496)
        local refund = redis.call('ZREVRANGEBYSCORE', key, upTo, refundsFrom, 'LIMIT', '0', '1')[1]
        gone = refund and (string.sub(refund, 2, 13) - refundedBefore) % 100000000000 or 0
        probe = redis.call('ZREVRANGEBYSCORE', key, whole(probe[2] + 0), '-inf', 'LIMIT', '0', '1')
      end
      if (string.sub(probe[1], 1, 12) - before - gone) % 100000000000 >= first then
        high = middle
      else
        low = middle + 1
      end
    end
    final = redis.call('ZRANGE', key, whole(low), whole(low), 'WITHSCORES')
  end
  return math.min(final[2] + 0, now) + window - now
end
