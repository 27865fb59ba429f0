-- slidinglog_take.lua: grant as many of `count` requests of `cost` units each as fit into the window that
-- ends now.
-- KEYS:  key
-- ARGV:  cost units; count requests; limit units; window us
-- Reply: granted requests; remaining units; retry us, 0 if all were granted; reset us; sum units, of the log; now us
-- Cost:  O(log N) for N grants in the window, and O(250) to take away what is out or ahead
-- Uses:  PEXPIREAT PEXPIRETIME TIME ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZRANK ZREMRANGEBYRANK
--        ZREMRANGEBYSCORE ZREVRANGEBYSCORE
local key, cost, count = KEYS[1], ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0
local limit, window = ARGV[3] + 0, ARGV[4] + 0

-- whole(integer): a whole number as text with all its digits. A number handed to a command as it is may be
-- written as 1e+15, or cut to 14 digits by tostring and "..". In halves, for %d reads 32 bits where that is
-- what a C long has.
local function whole(integer)
  if integer < 1000000000 then
    return string.format('%d', integer)
  end
  return string.format('%d%09d', (integer - integer % 1000000000) / 1000000000, integer % 1000000000)
end

-- Now, in microseconds of the server's clock since 1970. Added as numbers: as text, "5" microseconds would
-- need its leading zeros.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

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
local room = math.max(limit - total, 0)

-- Granted: as many of `count` requests of `cost` units each as fit into `room` >= 0; a look, of cost 0,
-- always fits.
local granted = count
if cost * count > room then
  granted = (room - room % cost) / cost
end
local units = granted * cost

-- entry(sumWith, added, form): the member for a grant of `added` units, with which `sumWith` are granted.
-- Refunds, and grants whose units were given back, have a form of their own.
local function entry(sumWith, added, form)
  local low = sumWith % 1000000
  local high = (sumWith % 100000000000 - low) / 1000000 + 100000
  return string.format(form or added == 1 and '%06d%06d' or '%06d%06d:%d', high, low, added)
end

-- What is ahead of the clock becomes one grant of now, so that all is out within a window; and everything
-- does, where that is more than 250 members, or where units were given back. "kept" is the first member
-- that stays. Members are added before any is taken away: the key is never gone, for it would be another
-- node's while its slot moves, and nothing is lost where one of the two is refused.
local write, pulled, many, kept = units > 0, live and newest > now, false, oldest[1]
if pulled then
  local first = redis.call('ZRANGEBYSCORE', key, whole(now + 1), '+inf', 'LIMIT', '0', '1')[1]
  local firstUnits = string.sub(first, 14)
  firstUnits = firstUnits == '' and 1 or firstUnits + 0
  local ahead = (sum - string.sub(first, 1, 12) + firstUnits) % 100000000000
  many = refunded > 0 or redis.call('ZCOUNT', key, whole(now + 1), '4503599627370495') > 250
  if many then
    ahead = total
  end
  live = ahead > 0
  if live then
    local merged = entry(sum, ahead)
    redis.call('ZADD', key, whole(now), merged)
    if ahead == total then
      oldest, oldestUnits, before, kept = { merged, now }, ahead, (sum - ahead) % 100000000000, merged
    end
  end
  newest, write, ended = now, true, false
end
-- The grant is added, as one member.
if units > 0 then
  sum = (sum + units) % 100000000000
  local added = entry(sum, units, granted > 1 and '%06d%06d*%d')
  redis.call('ZADD', key, whole(now), added)
  if not live then
    oldest, oldestUnits, before, live, kept = { added, now }, units, (sum - units) % 100000000000, true, added
  end
  total, newest, ended = total + units, now, false
end
-- What was pulled back is taken away; and with each grant, of what is out, at most 250 members with their
-- refunds, so that no call takes long.
if pulled then
  redis.call('ZREMRANGEBYSCORE', key, whole(now + 1), many and '+inf' or '4503599627370495')
  refunds = refunds and not many
end
if many or trim and units > 0 then
  local gone = live and redis.call('ZRANK', key, kept) or redis.call('ZCARD', key)
  gone = many and gone or math.min(gone, 250)
  if gone > 0 and refunds then
    local final = redis.call('ZRANGE', key, whole(gone - 1), whole(gone - 1), 'WITHSCORES')
    redis.call('ZREMRANGEBYSCORE', key, '4503599627370496', whole(final[2] + 4503599627370496))
  end
  if gone > 0 then
    redis.call('ZREMRANGEBYRANK', key, '0', whole(gone - 1))
  end
end
-- The key expires when its newest grant is out; later where this plan's window is longer than the one it
-- was set for, even if nothing was granted under it yet. A large log is kept for a second more: whoever
-- comes right then finds it out, and takes it away bit by bit, where one that has expired is freed as a
-- whole within the call that finds it.
local out = math.max(newest + window, now + 1)
if total > 1000 then
  out = out + 1000000
end
local moment = (out + -out % 1000) / 1000
if write or stored and redis.call('PEXPIRETIME', key) < (live and moment or 0) then
  redis.call('PEXPIREAT', key, whole(moment))
end
local refused = granted < count

-- How long it takes until a request of `cost` units fits, if it does not now ("refused"), and until all
-- units are out.
local retry, reset = 0, total > 0 and math.min(newest, now) + window - now or 0
local lacking = total + cost - limit
if refused and lacking > 0 or ended and total > 0 then
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
  if refused and lacking > 0 then
    retry = outAfter(lacking)
  end
  if ended and total > 0 then
    reset = outAfter(total)
  end
end
return { granted, room - units, retry, reset, sum, now }
