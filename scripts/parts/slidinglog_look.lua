-- SlidingLog. Stored, a sorted set: a member for each grant, its score the moment of it in microseconds.
-- The member is the sum of all units granted up to and with it, modulo 10^11, after a digit 1 in eleven
-- digits (zeros in front would make it octal to some readers), and after a colon its own units where they
-- are not 1. So members differ whatever the rate, those of one moment are in the order of their grants,
-- and what was granted from one member to another is the difference of their sums: nothing is ever added
-- up over the log. (After 10^11 units the sums begin again; of two grants in one microsecond, one before
-- and one after that, the order would be lost, and the total with it.) Units given back are kept in the
-- same way, behind the grants: a member for each refund, "r" and the sum of all units given back up to
-- and with it, in the order of the grants that they were of, a colon and its own units. Its score is the
-- moment of the grant plus 2^52, so that it is out when the grant is. The grant has a dash for its colon
-- then. It has a star where several requests were granted together, which may be given back one by one.
--   limit   units
--   window  us; a grant one window old is out
-- Found: the total of the units in the window; the oldest member in it, its units, and the sum before it;
-- the sum and the moment of the newest member; whether the log has members that are out; whether it has
-- refunds, the units given back of grants in the window, the sum before those, and the least score of
-- theirs; whether the newest member was given back. Members ahead of the clock, which stepped back, count as of now.
local total, before, oldestUnits, sum, newest = 0, 0, 0, 0, 0
local refunded, refundedBefore, refundsFrom = 0, 0, ''
local oldest = redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')
local stored = oldest[1] ~= nil
local trim = stored and oldest[2] + 0 <= now - window
if trim then
  local from = whole(now - window + 1)
  oldest = redis.call('ZRANGEBYSCORE', key, from, '4503599627370495', 'WITHSCORES', 'LIMIT', '0', '1')
end
local live, refunds, ended = oldest[1] ~= nil, false, false
if stored then
  local last = redis.call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  refunds = last[2] + 0 >= 4503599627370496
  if refunds then
    refundsFrom = whole(math.max(now - window + 1, 0) + 4503599627370496)
    local first = redis.call('ZRANGEBYSCORE', key, refundsFrom, '+inf', 'LIMIT', '0', '1')[1]
    if first then
      refundedBefore = string.sub(first, 2, 13) - string.sub(first, 15)
      refunded = (string.sub(last[1], 2, 13) - refundedBefore) % 100000000000
    end
    last = redis.call('ZREVRANGEBYSCORE', key, '4503599627370495', '-inf', 'WITHSCORES', 'LIMIT', '0', '1')
  end
  sum, newest, ended = string.sub(last[1], 1, 12) + 0, last[2] + 0, string.sub(last[1], 13, 13) == '-'
end
if live then
  oldestUnits = string.sub(oldest[1], 14)
  oldestUnits = oldestUnits == '' and 1 or oldestUnits + 0
  before = (string.sub(oldest[1], 1, 12) - oldestUnits) % 100000000000
  total = (sum - before - refunded) % 100000000000
end
