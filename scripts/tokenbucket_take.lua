-- tokenbucket_take.lua: grant as many of `count` requests of `cost` tokens each as the refilled bucket holds.
-- KEYS:  key
-- ARGV:  cost tokens; count requests; burst tokens; n tokens; d us
-- Reply: granted requests; remaining tokens; part 1/d tokens; ahead us
-- Cost:  O(1)
-- Uses:  HMGET HSET PEXPIREAT PEXPIRETIME PTTL TIME

-- whole(n): an integer as text with all its digits. A number handed to a command as it is may be written as 1e+15, or
-- cut to 14 digits by tostring and "..".
local function whole(n)
  return string.format('%.0f', n)
end

-- nowMicros(): the server's clock, microseconds since 1970. Added as numbers: as text, "5" microseconds would need its
-- leading zeros.
local function nowMicros()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- fit(left, cost, count): how many of `count` requests of `cost` units each fit into `left` units, left >= 0. A look,
-- of cost 0, always fits.
local function fit(left, cost, count)
  if cost == 0 or left >= cost * count then
    return count
  end
  return math.floor(left / cost)
end

-- TokenBucket. Stored, a hash: l whole tokens; p the part of a token beyond them, in 1/d tokens, 0 <= p < d; t the
-- moment they were counted, in microseconds of the server's clock; n and d the rate they were filled at, n/d tokens a
-- microsecond. The numbers are whole, and none computed here leaves 2^53: the plan holds d * (n + 1) <= 2^52 and
-- burst * d / n <= 2^52.
-- Its numbers, from ARGV[a]:
--   burst  tokens
--   n, d   the rate, n/d tokens a microsecond in lowest terms

-- rescale(part, d, e): floor(part * e / d) for 0 <= part < d. Digit by binary digit of e, since the product may leave
-- 2^53.
local function rescale(part, d, e)
  local scaled, rest, bit = 0, 0, 4503599627370496
  for _ = 1, 53 do
    scaled, rest = scaled * 2, rest * 2
    if rest >= d then
      scaled, rest = scaled + 1, rest - d
    end
    if e >= bit then
      e, rest = e - bit, rest + part
      if rest >= d then
        scaled, rest = scaled + 1, rest - d
      end
    end
    bit = bit / 2
  end
  return scaled
end

-- tokenBucketLook: the level (tokens, part), the moment up to which it is counted, and the state of the stored hash:
-- 0 none, 1 filled at this plan's rate, 2 filled at another one. A clock behind the stored moment refills nothing.
local function tokenBucketLook(key, a, now)
  local burst, d = tonumber(ARGV[a]), tonumber(ARGV[a + 2])
  local h = redis.call('HMGET', key, 'l', 'p', 't', 'n', 'd')
  if not h[1] then
    return burst, 0, now, 0
  end
  local tokens, part, at, state = tonumber(h[1]), tonumber(h[2]), tonumber(h[3]), 1
  local storedN, storedD = tonumber(h[4]), tonumber(h[5])
  if now > at then
    local turns = math.floor((now - at) / storedD)
    part = part + (now - at - turns * storedD) * storedN
    local more = math.floor(part / storedD)
    tokens, part, at = tokens + turns * storedN + more, part - more * storedD, now
  end
  if h[4] ~= ARGV[a + 1] or h[5] ~= ARGV[a + 2] then
    part, state = rescale(part, storedD, d), 2
  end
  if tokens >= burst then
    tokens, part = burst, 0
  end
  return tokens, part, at, state
end

-- tokenBucketAhead: how far the moment `at` is ahead of the clock, in microseconds; not further than it takes to fill
-- the level, rounded down, so that the bucket is full again within burst / rate.
local function tokenBucketAhead(a, now, tokens, part, at)
  if at <= now then
    return 0
  end
  local n, d = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local turns = math.floor(tokens / n)
  return math.min(at - now, turns * d + math.floor(((tokens - turns * n) * d + part) / n))
end

-- tokenBucketCharge: takes `units` off the level that tokenBucketLook said, and stores it when it has to be: something
-- was taken, the rate is another one, or the clock stepped back too far. Answers the tokens left and how far their
-- moment is ahead of the clock.
-- Expiry: when the bucket is full again, rounded up, and never before what is set: a plan with less to fill must not
-- let the key go while another plan of the same key has tokens to earn. A key that would go too soon (by such a plan,
-- or by a hand that took its expiry away) is mended even when nothing else is written.
-- It is a moment and not a lifetime, which Redis would count from a clock read before TIME.
local function tokenBucketCharge(key, a, now, units, tokens, part, at, state)
  tokens = tokens - units
  local ahead = tokenBucketAhead(a, now, tokens, part, at)
  local n, d = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local missing = tonumber(ARGV[a]) - tokens
  local turns = math.floor(missing / n)
  local full = ahead + turns * d + math.ceil(((missing - turns * n) * d - part) / n)
  if units > 0 or state == 2 or at > now + ahead then
    if state == 1 then
      redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead))
    else
      redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead),
        'n', ARGV[a + 1], 'd', ARGV[a + 2])
    end
  elseif state == 0 or redis.call('PEXPIRETIME', key) >= math.floor((now + full) / 1000) then
    return tokens, ahead
  end
  local moment = math.max(math.ceil((now + full) / 1000), math.floor(now / 1000) + 1)
  if state == 0 or redis.call('PEXPIREAT', key, whole(moment), 'GT') == 0 and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIREAT', key, whole(moment))
  end
  return tokens, ahead
end
local cost, count, now = tonumber(ARGV[1]), tonumber(ARGV[2]), nowMicros()
local tokens, part, at, state = tokenBucketLook(KEYS[1], 3, now)
local granted = fit(tokens, cost, count)
local ahead
tokens, ahead = tokenBucketCharge(KEYS[1], 3, now, granted * cost, tokens, part, at, state)
return { granted, tokens, part, ahead }
