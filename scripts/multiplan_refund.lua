-- multiplan_refund.lua: give units back under each of several plans, as the script of each does.
-- KEYS:  key of each plan
-- ARGV:  of each plan its kind, and the arguments of its own script
-- Reply: of each plan what its own script replies
-- Cost:  that of each plan
-- Uses:  DECRBY EXISTS GET HMGET HSET PEXPIREAT PEXPIRETIME PTTL SET TIME ZADD ZRANGE ZRANGEBYSCORE ZRANK ZREM
--        ZREMRANGEBYSCORE ZREVRANGEBYSCORE ZSCORE

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
-- Every key is looked at before any is changed: one that is another node's now ends the script, which is then sent
-- again.
for i = 1, #KEYS do
  redis.call('EXISTS', KEYS[i])
end
local reply, arg = {}, 1
for i = 1, #KEYS do
  local key, kind = KEYS[i], ARGV[arg]
  if kind == 'fw' then
    local units, closes = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 3
    -- A window is known by its end: a later one ends later, and one that was cut shorter, or started again, is
    -- not known again.
    local back = 0
    local counted = redis.call('GET', key)
    if counted and redis.call('PEXPIRETIME', key) == closes then
      back = math.min(units, counted + 0)
      redis.call('DECRBY', key, whole(back))
    end
    reply[i] = back
  elseif kind == 'sw' then
    local units, taken, window = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    arg = arg + 4
    -- What is stored is left at the window that was open last, and what is given back is taken off the one that
    -- it was counted in: that one, or the one before. Under windows of another length it is not known any more.
    local back = 0
    local h = redis.call('HMGET', key, 'i', 'p', 'c', 'w')
    if h[1] and h[4] + 0 == window then
      local behind = h[1] - (taken - taken % window) / window
      if behind == 0 then
        back = math.min(units, h[3] + 0)
        redis.call('HSET', key, 'c', whole(h[3] - back))
      elseif behind == 1 then
        back = math.min(units, h[2] + 0)
        redis.call('HSET', key, 'p', whole(h[2] - back))
      end
    end
    reply[i] = back
  elseif kind == 'sl' then
    local units, sum, taken = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    arg = arg + 4
    -- entry(sumWith, added, form): the member for a grant of `added` units, with which `sumWith` are granted.
    -- Refunds, and grants whose units were given back, have a form of their own.
    local function entry(sumWith, added, form)
      local low = sumWith % 1000000
      local high = (sumWith % 100000000000 - low) / 1000000 + 100000
      return string.format(form or added == 1 and '%06d%06d' or '%06d%06d:%d', high, low, added)
    end
    -- A grant that was made together with others is a part of their member, which is then written again as what
    -- was granted before it, the grant, and what was granted behind it. What became one grant when the clock stepped
    -- back is not taken apart.
    local member = entry(sum, units)
    local score = redis.call('ZSCORE', key, member)
    if not score then
      local moment = whole(taken)
      local beside = redis.call('ZRANGEBYSCORE', key, moment, moment)
      for j = 1, #beside do
        local all = beside[j]
        local isTogether = string.sub(all, 13, 13) == '*'
        local own = isTogether and string.sub(all, 14) + 0 or 0
        local behind = (string.sub(all, 1, 12) - sum) % 100000000000
        local ahead = own - units - behind
        if isTogether and ahead >= 0 then
          if behind > 0 then
            redis.call('ZADD', key, moment, entry(sum + behind, behind, '%06d%06d*%d'))
          end
          redis.call('ZADD', key, moment, member)
          if ahead > 0 then
            redis.call('ZADD', key, moment, entry(sum + 100000000000 - units, ahead, '%06d%06d*%d'))
          end
          redis.call('ZREM', key, all)
          score = moment
          break
        end
      end
    end
    -- The grant is marked, and a refund is put where it belongs by its moment. Those of later grants are
    -- written again with the greater sum; where they are more than 250 they become one with this, so that
    -- this does not take long: what was given back of them is then forgotten earlier than they are, with the
    -- grant.
    local back = 0
    if score and score + 0 == taken then
      back = units
      redis.call('ZADD', key, whole(taken), entry(sum, units, '%06d%06d-%d'))
      redis.call('ZREM', key, member)
      local at = taken + 4503599627370496
      local earlier = redis.call('ZREVRANGEBYSCORE', key, whole(at), '4503599627370496', 'LIMIT', '0', '1')[1]
      local later = redis.call('ZRANGEBYSCORE', key, whole(at + 1), '+inf', 'WITHSCORES', 'LIMIT', '0', '251')
      local with = units
      if earlier then
        with = units + string.sub(earlier, 2, 13)
      elseif later[1] then
        with = units + string.sub(later[1], 2, 13) - string.sub(later[1], 15)
      end
      if later[1] then
        local all = units + string.sub(redis.call('ZRANGE', key, '-1', '-1')[1], 2, 13)
        redis.call('ZREMRANGEBYSCORE', key, whole(at + 1), '+inf')
        if later[501] then
          units = (all - with + units) % 100000000000
          later, with = {}, all
        end
      end
      redis.call('ZADD', key, whole(at), entry(with, units, 'r%06d%06d:%d'))
      for j = 1, #later, 2 do
        local sumWith, ownUnits = string.sub(later[j], 2, 13) + back, string.sub(later[j], 15) + 0
        redis.call('ZADD', key, whole(later[j + 1] + 0), entry(sumWith, ownUnits, 'r%06d%06d:%d'))
      end
      -- Grants that were given back and stand beside each other, and their refunds, become one: so there are never many
      -- more of them than of others.
      local marked = entry(sum, back, '%06d%06d-%d')
      local rank = redis.call('ZRANK', key, marked)
      local around = redis.call('ZRANGE', key, whole(math.max(rank - 1, 0)), whole(rank + 1), 'WITHSCORES')
      for j = 1, #around - 3, 2 do
        local one, other = around[j], around[j + 2]
        if string.sub(one, 13, 13) == '-' and string.sub(other, 13, 13) == '-' then
          local from = whole(around[j + 1] + 4503599627370496)
          local to = whole(around[j + 3] + 4503599627370496)
          local both = redis.call('ZRANGEBYSCORE', key, from, to, 'LIMIT', '0', '3')
          local ones, others = string.sub(one, 14) + 0, string.sub(other, 14) + 0
          if #both == 2 and string.sub(both[1], 15) + 0 == ones and string.sub(both[2], 15) + 0 == others then
            around[j + 2] = entry(string.sub(other, 1, 12), ones + others, '%06d%06d-%d')
            redis.call('ZADD', key, whole(around[j + 3] + 0), around[j + 2])
            redis.call('ZADD', key, to, entry(string.sub(both[2], 2, 13), ones + others, 'r%06d%06d:%d'))
            redis.call('ZREM', key, one, other, both[1], both[2])
          end
        end
      end
    end
    reply[i] = back
  elseif kind == 'tb' then
    local units, left = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    local leftPart, taken = ARGV[arg + 3] + 0, ARGV[arg + 4] + 0
    local refundedThen, burst = ARGV[arg + 5] + 0, ARGV[arg + 6] + 0
    local n, d, plan = ARGV[arg + 7] + 0, ARGV[arg + 8] + 0, ARGV[arg + 9]
    arg = arg + 10
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
    -- The bucket as the request left it (left, leftPart; at the moment taken) has earned something since, and
    -- others may have given back what they took before (refunded; since: refundedThen). What it would lack
    -- now of being full, had nobody else taken anything, is what of the request was not earned again; no more
    -- is given back than that. So nobody is granted what would not have been, had nothing been taken in the
    -- first place. A bucket that is full, or whose plan changed, is given nothing; nor is one that is not the one
    -- it was (others < 0).
    local back, write, anew = 0, false, true
    local others = refunded - refundedThen
    if state == 1 and changed < taken and others >= 0 then
      if now > taken then
        local rest = (now - taken) % d
        local turns = (now - taken - rest) / d
        leftPart = leftPart + rest * n
        rest = leftPart % d
        left, leftPart = left + turns * n + (leftPart - rest) / d, rest
      end
      left = left + others
      local whollyBack = left + units < burst or left + units == burst and leftPart == 0
      if whollyBack then
        back, write, tokens = units, true, tokens + units
      elseif left < burst then
        write, back = true, burst - left
        tokens, part = tokens + back, part - leftPart
        if part < 0 then
          tokens, part = tokens - 1, part + d
        end
      end
      refunded = refunded + back
      if refunded >= 4503599627370496 then -- beyond what is counted: as if the plan had changed
        refunded, changed = 0, math.max(at, now)
      end
      if write and not whollyBack and leftPart > 0 then
        back = back - 1
      end
      if tokens >= burst then
        tokens, part = burst, 0
      end
    end
    if write then
      -- How far the moment `at` is ahead of the clock, in microseconds; not further than it takes to fill the
      -- level, rounded down, so that the bucket is full again within burst / rate.
      local ahead = 0
      if at > now then
        local rest = tokens % n
        local within = rest * d + part
        ahead = math.min(at - now, (tokens - rest) / n * d + (within - within % n) / n)
      end
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
    end
    reply[i] = back
  else
    local spending, left, taken = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    local capacity, n = ARGV[arg + 4] + 0, ARGV[arg + 5] + 0
    arg = arg + 6
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
    -- What was spent is being earned since (left: all that was, when the request was granted; at the moment
    -- taken). Of the request's own units, what is not earned yet, had nothing else been spent, can still be
    -- given back, and no more: others may have given back what was spent before. So nobody is granted what
    -- would not have been, had it not been spent in the first place. To a clock that stepped back behind that
    -- moment nothing is given, for the step counts as spent, at most the capacity, and it is not known what
    -- would have been.
    local back = 0
    left = math.min(left, spending)
    if now >= taken and now - taken < left / n then
      back = math.min(spent, left - (now - taken) * n)
    end
    local units = -back
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
    reply[i] = back
  end
end
return reply
