-- multiplan_take.lua: grant as many of `count` requests of `cost` units each as fit under all of several plans, each
-- with a key of its own; what one of them denies is charged to none.
-- KEYS:  key of each plan
-- ARGV:  cost units; count requests; of each plan its kind, and its numbers
-- Reply: granted requests; of each plan what its own script replies behind that
-- Cost:  that of each plan
-- Uses:  GET HINCRBY HMGET HSET INCRBY PEXPIRE PEXPIREAT PEXPIRETIME PTTL SET TIME ZADD ZCARD ZCOUNT ZRANGE
--        ZRANGEBYSCORE ZRANK ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGEBYSCORE
local cost, count = ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0

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
local nowMillis = (now - now % 1000) / 1000
-- Every plan is looked at before any is charged, for a key of another type ends the script. A charge is a function of
-- what was found. (That of a GCRA, which has least to do, is not: a function costs more, for each variable it keeps.)
local granted, charges, found, reply, arg = count, {}, {}, {}, 3
for i = 1, #KEYS do
  local key, kind = KEYS[i], ARGV[arg]
  if kind == 'fw' then
    local limit, window, mode, clocked = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3], true
    arg = arg + 4
    -- FixedWindow. Stored: a counter of the units granted in the open window; the key's expiry is the window's
    -- end.
    --   limit   units
    --   window  ms
    --   mode    0: opens at the first grant; 1: on the grid of the server's clock; 2: as 0, and any refusal starts the
    --           window again; 3: as 2, but only when nothing at all was granted
    -- Found: the units used, and the ms left until the open window ends; 0: no window is open. Redis still
    -- shows a key in the millisecond in which it ends, with 0 ms left: that window is over. "mend" says that
    -- the stored expiry is missing, or later than this plan allows, and has to be set to what is left.
    -- "longest" is how long a window lasts that opens now.
    local used, left, mend, longest = 0, 0, false, window
    if mode == '1' then
      longest = window - nowMillis % window
    end
    local counted = redis.call('GET', key)
    if counted then
      if clocked then
        left = redis.call('PEXPIRETIME', key)
        if left >= 0 then
          left = math.max(left - nowMillis, 0)
        end
      else
        left = redis.call('PTTL', key)
      end
      if left < 0 or left > longest then
        left, mend = longest, true
      end
      if left > 0 then
        used = counted + 0
      end
    end
    local room = limit - used
    if room < 0 then
      room = 0
    end
    local one = cost
    -- As many of the requests, of `one` each, as fit into `room` >= 0 here; a look, of cost 0, always fits.
    if one * count > room then
      granted = math.min(granted, (room - room % one) / one)
    end
    charges[i] = function(filled)
      local units = granted * cost
      -- The units granted are added, and the expiry kept right.
      if units > 0 then
        local added = ARGV[1]
        if granted > 1 then
          added = whole(units)
        end
        if left > 0 then
          redis.call('INCRBY', key, added)
        elseif clocked then
          left = longest
          redis.call('SET', key, added, 'PXAT', whole(nowMillis + left))
        else
          left = longest
          redis.call('SET', key, added, 'PX', whole(left))
        end
      end
      if granted < count and left > 0 and (mode == '2' or mode == '3' and units == 0) then
        left, mend = window, true
      end
      if mend and clocked then
        redis.call('PEXPIREAT', key, whole(nowMillis + left))
      elseif mend then
        redis.call('PEXPIRE', key, whole(left))
      end
      -- When the window of a grant ends: the moment by which it is known again when units are given back.
      local closes = 0
      if units > 0 and clocked then
        closes = nowMillis + left
      elseif units > 0 then
        closes = redis.call('PEXPIRETIME', key)
      end
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = room - units, left, closes
    end
  elseif kind == 'sw' then
    local limit, window = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 3
    -- SlidingWindow. Windows are counted from 1970, one after the other. Stored, a hash: i the index of the
    -- window that was open last; p and c the units granted in the window before it and in it; w the length of
    -- those windows.
    --   limit   units
    --   window  us
    -- Found: the index of the open window and how long it has been open; the units granted in the previous one
    -- and in this; the weight of the previous one, rounded up: its units in proportion to the part of it that a
    -- window which ends now still covers; and the state of what is stored: 0 nothing, 1 the counts of the open
    -- window, 2 those of an earlier one, 3 something to be stored anew. That is so where the clock stepped back
    -- behind the stored window: then all that was counted, up to the limit, counts in the open one. And where
    -- the windows had another length: then what was counted in the open one counts in that of the new length,
    -- and what the one before weighs now it weighs there too, to lose it by the end of that (or counts there,
    -- where the number that weighs so much would leave 2^52).
    local previous, current, state, length = 0, 0, 0, window
    local h = redis.call('HMGET', key, 'i', 'p', 'c', 'w')
    if h[1] then
      length = h[4] + 0
    end
    local elapsed = now % length
    local index = (now - elapsed) / length
    if h[1] then
      local behind = index - h[1]
      state = 2
      if behind == 0 then
        previous, current, state = h[2] + 0, h[3] + 0, 1
      elseif behind == 1 then
        previous = h[3] + 0
      elseif behind < 0 then
        current, state = math.max(math.min(h[2] + h[3], limit), h[3] + 0), 3
      end
    end
    local weight = previous
    if elapsed > 0 and previous > 0 then
      local product = previous * (length - elapsed)
      if product <= 4503599627370496 then
        weight = (product + -product % length) / length
      else
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
        local up
        weight, up = rescale(length - elapsed, length, previous)
        if up then
          weight = weight + 1
        end
      end
    end
    if length ~= window then
      elapsed, state = now % window, 3
      index = (now - elapsed) / window
      if weight > 0 then
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
        local ahead = window - elapsed
        local rest = window % ahead
        previous = (window - rest) / ahead * weight + rescale(rest, ahead, weight)
        if previous > 4503599627370496 then
          previous, current, weight = 0, current + weight, 0
        end
      end
    end
    local remaining = limit - current - weight
    local room, one = math.max(remaining, 0), cost
    -- As many of the requests, of `one` each, as fit into `room` >= 0 here; a look, of cost 0, always fits.
    if one * count > room then
      granted = math.min(granted, (room - room % one) / one)
    end
    charges[i] = function(filled)
      local units = granted * cost
      -- The counts are stored when something was granted, or they have to be stored anew. The key expires with the
      -- window after the open one, in which what was granted now has a weight. Whether its expiry was taken away,
      -- one request in sixty-four looks.
      local write = units > 0 or state == 3
      if write or state ~= 0 and now % 64 == 0 and redis.call('PTTL', key) == -1 then
        local anew = write and state ~= 1
        if anew then
          local counted = whole(current + units)
          redis.call('HSET', key, 'i', whole(index), 'p', whole(previous), 'c', counted, 'w', whole(window))
        elseif write then
          redis.call('HINCRBY', key, 'c', granted == 1 and ARGV[1] or whole(units))
        end
        if anew or not write or now % 64 == 0 and redis.call('PTTL', key) == -1 then
          redis.call('PEXPIREAT', key, whole((index + 2) * window / 1000))
        end
      end
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = remaining - units, previous, now
    end
  elseif kind == 'sl' then
    local limit, window = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 3
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
    local room, one = math.max(limit - total, 0), cost
    -- As many of the requests, of `one` each, as fit into `room` >= 0 here; a look, of cost 0, always fits.
    if one * count > room then
      granted = math.min(granted, (room - room % one) / one)
    end
    charges[i] = function(filled)
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
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = room - units, retry, reset
      reply[filled + 4], reply[filled + 5] = sum, now
    end
  elseif kind == 'tb' then
    local burst, n, d, plan = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4]
    arg = arg + 5
    -- TokenBucket. Stored, a hash: l whole tokens; p the part of a token beyond them, in 1/d tokens, 0 <= p < d;
    -- t the moment they were counted, in microseconds of the server's clock; b the plan they were counted under,
    -- "burst n d", and behind it, once there was any, "refunded changed". The numbers are whole, and none computed
    -- here leaves 2^53: the plan holds d * (n + 1) <= 2^52 and burst * d / n <= 2^52.
    --   burst     tokens
    --   n, d      the rate, n/d tokens a microsecond in lowest terms
    --   plan      "burst n d"
    --   changed   when the plan was changed: no request taken by then (t) is given back any more; 0: never
    --   refunded  the units given back since, below 2^52
    -- Found: the level (tokens, part), the moment `at` up to which it is counted, and the state of what is stored:
    -- 0 nothing, 1 counted under this plan, 2 counted under another. A clock behind the stored moment refills
    -- nothing.
    local tokens, part, at, state, refunded, changed = burst, 0, now, 0, 0, 0
    local h = redis.call('HMGET', key, 'l', 'p', 't', 'b')
    if h[1] then
      tokens, part, at, state = h[1] + 0, h[2] + 0, h[3] + 0, 1
      local storedN, storedD = n, d
      if h[4] ~= plan then
        local under, sum, when = string.match(h[4], '^(%d+ %d+ %d+) ?(%d*) ?(%d*)$')
        if sum ~= '' then
          refunded, changed = sum + 0, when + 0
        end
        if under ~= plan then
          state, refunded, changed = 2, 0, math.max(at, now - 1)
          storedN, storedD = string.match(under, ' (%d+) (%d+)$')
          storedN, storedD = storedN + 0, storedD + 0
        end
      end
      if now > at then
        local rest = (now - at) % storedD
        local turns = (now - at - rest) / storedD
        part = part + rest * storedN
        rest = part % storedD
        tokens, part, at = tokens + turns * storedN + (part - rest) / storedD, rest, now
      end
      if state == 2 and storedD ~= d then
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
        part = rescale(part, storedD, d)
      end
      if tokens >= burst then
        tokens, part = burst, 0
      end
    end
    local room, one = tokens, cost
    -- As many of the requests, of `one` each, as fit into `room` >= 0 here; a look, of cost 0, always fits.
    if one * count > room then
      granted = math.min(granted, (room - room % one) / one)
    end
    charges[i] = function(filled)
      local units = granted * cost
      tokens = tokens - units
      -- How far the moment `at` is ahead of the clock, in microseconds; not further than it takes to fill the
      -- level, rounded down, so that the bucket is full again within burst / rate.
      local ahead = 0
      if at > now then
        local rest = tokens % n
        local within = rest * d + part
        ahead = math.min(at - now, (tokens - rest) / n * d + (within - within % n) / n)
      end
      local write, anew = units > 0 or state == 2 or at > now + ahead, state ~= 1
      -- The level is stored when it has to be ("write"): something was taken or given back, it was counted under
      -- another plan, or the clock stepped back too far. Expiry: when the bucket is full again, rounded up, and
      -- never before what is set: a plan with less to fill must not let the key go while another plan of the same
      -- key has tokens to earn. It is a moment and not a lifetime, which Redis would count from a clock read
      -- before TIME. A key whose expiry was taken away is mended even when nothing else is written: one request in
      -- sixty-four looks.
      if write or state == 1 and now % 64 == 0 and redis.call('PTTL', key) == -1 then
        local missing = burst - tokens
        local rest = missing % n
        local within = rest * d - part
        local full = now + ahead + (missing - rest) / n * d + (within + -within % n) / n
        full = full + -full % 1000
        if full <= now then
          full = now + 1000 -- a whole millisecond
        end
        local moment = whole(full / 1000)
        if write and not anew then
          redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead))
        elseif write then
          local under = plan
          if refunded > 0 or changed > 0 then
            under = string.format('%s %s %s', plan, whole(refunded), whole(changed))
          end
          redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead), 'b', under)
        end
        if state == 0 or redis.call('PEXPIREAT', key, moment, 'GT') == 0 and redis.call('PTTL', key) == -1 then
          redis.call('PEXPIREAT', key, moment)
        end
      end
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = tokens, part, ahead
      reply[filled + 4], reply[filled + 5] = now, refunded
    end
  else
    local capacity, n, unit = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    arg = arg + 4
    -- 2^52, rounded down to a multiple of n.
    local modulus = 4503599627370496 - 4503599627370496 % n
    -- GCRA. Stored: when what was spent will be earned again (the theoretical arrival time of the ATM Forum's
    -- cell rate algorithm), in units of 1/n microseconds modulo `modulus`; the key's expiry is that moment,
    -- rounded up to a millisecond.
    --   capacity  units: burst * d; one token is d units
    --   n         of the rate, n/d tokens a microsecond in lowest terms
    --   modulus   units: the greatest multiple of n up to 2^52; the plan holds capacity <= modulus / 4
    -- Found: the units spent and not earned again yet, 0 <= spent <= capacity. Where the clock stepped back it is
    -- all of the capacity, and "mend" says that it is to be stored. A key lives for up to a millisecond longer
    -- than it matters, and a key whose expiry was taken away lives on: what it says is over, and looks as if it
    -- were far ahead. What tells that is the key's expiry, wrong by a turn of the moments or not at all; by half a turn
    -- is far enough, for the expiry of a key that moved to another server goes by the clock of that.
    local turn = modulus / n
    local clock = now % turn * n
    local spent, mend = 0, false
    local arrival = redis.call('GET', key)
    if arrival then
      spent = (arrival - clock) % modulus
      if spent > capacity then
        if spent > modulus / 4 * 3 and redis.call('PEXPIRETIME', key) <= (now + turn / 2) / 1000 + 1 then
          spent = 0
        else
          spent, mend = capacity, true
        end
      elseif turn < 86400000000 and redis.call('PEXPIRETIME', key) > (now + spent / n + turn / 2) / 1000 + 2 then
        spent, mend = capacity, true
      end
    end
    local room, one = capacity - spent, cost * unit
    -- As many of the requests, of `one` each, as fit into `room` >= 0 here; a look, of cost 0, always fits.
    if one * count > room then
      granted = math.min(granted, (room - room % one) / one)
    end
    found[i] = { key, spent, mend, arrival, clock, modulus, n, one }
  end
end
reply[1] = granted
for i = 1, #KEYS do
  local charge, filled = found[i], #reply
  if charge then
    local key, spent, mend, arrival = charge[1], charge[2], charge[3], charge[4]
    local clock, modulus, n, units = charge[5], charge[6], charge[7], granted * charge[8]
    -- What is spent is stored when something was granted or given back ("units"), or the stored moment or its
    -- expiry has to be mended. Whether a key that is not written has an expiry, one request in sixty-four looks.
    spent = spent + units
    if units ~= 0 or mend or arrival and now % 64 == 0 and redis.call('PTTL', key) == -1 then
      local full = now + (spent + -spent % n) / n
      local moment = full + -full % 1000
      if moment <= now then
        moment = now + 1000 -- a whole millisecond
      end
      if units ~= 0 or mend then
        arrival = whole((clock + spent) % modulus)
      end
      redis.call('SET', key, arrival, 'PXAT', whole(moment / 1000))
    end
    reply[filled + 1], reply[filled + 2] = spent, now
  else
    charges[i](filled)
  end
end
return reply
