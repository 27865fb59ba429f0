-- multiplan_take.lua: grant as many of `count` requests of `cost` units each as fit under all of several plans, each
-- with a key of its own; what one of them denies is charged to none.
-- KEYS:  key of each plan
-- ARGV:  cost units; count requests; of each plan its kind, and its numbers
-- Reply: granted requests; of each plan what its own script replies behind that
-- Cost:  that of each plan
-- Uses:  GET HINCRBY HMGET HSET INCRBY PEXPIRE PEXPIREAT PEXPIRETIME PTTL SET TIME ZADD ZCARD ZCOUNT ZRANGE
--        ZRANGEBYSCORE ZRANK ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGEBYSCORE
local cost, count = ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0
--@ whole
--@ now
local nowMillis = (now - now % 1000) / 1000
-- Every plan is looked at before any is charged, for a key of another type ends the script. A charge is a function of
-- what was found. (That of a GCRA, which has least to do, is not: a function costs more, for each variable it keeps.)
local granted, charges, found, reply, arg = count, {}, {}, {}, 3
for i = 1, #KEYS do
  local key, kind = KEYS[i], ARGV[arg]
  if kind == 'fw' then
    local limit, window, mode, clocked = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3], true
    arg = arg + 4
    --@ fixedwindow_look
    local one = cost
    --@ multiplan_fits
    charges[i] = function(filled)
      local units = granted * cost
      --@ fixedwindow_charge
      --@ fixedwindow_closes
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = room - units, left, closes
    end
  elseif kind == 'sw' then
    local limit, window = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 3
    --@ slidingwindow_look
    local room, one = math.max(remaining, 0), cost
    --@ multiplan_fits
    charges[i] = function(filled)
      local units = granted * cost
      --@ slidingwindow_charge
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = remaining - units, previous, now
    end
  elseif kind == 'sl' then
    local limit, window = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 3
    --@ slidinglog_look
    local room, one = math.max(limit - total, 0), cost
    --@ multiplan_fits
    charges[i] = function(filled)
      local units = granted * cost
      --@ slidinglog_entry
      --@ slidinglog_charge
      local refused = granted < count
      --@ slidinglog_waits
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = room - units, retry, reset
      reply[filled + 4], reply[filled + 5] = sum, now
    end
  elseif kind == 'tb' then
    local burst, n, d, plan = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4]
    arg = arg + 5
    --@ tokenbucket_look
    local room, one = tokens, cost
    --@ multiplan_fits
    charges[i] = function(filled)
      local units = granted * cost
      tokens = tokens - units
      --@ tokenbucket_ahead
      local write, anew = units > 0 or state == 2 or at > now + ahead, state ~= 1
      --@ tokenbucket_charge
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = tokens, part, ahead
      reply[filled + 4], reply[filled + 5] = now, refunded
    end
  else
    local capacity, n, unit = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    arg = arg + 4
    --@ gcra_modulus
    --@ gcra_look
    local room, one = capacity - spent, cost * unit
    --@ multiplan_fits
    found[i] = { key, spent, mend, arrival, clock, modulus, n, one }
  end
end
reply[1] = granted
for i = 1, #KEYS do
  local charge, filled = found[i], #reply
  if charge then
    local key, spent, mend, arrival = charge[1], charge[2], charge[3], charge[4]
    local clock, modulus, n, units = charge[5], charge[6], charge[7], granted * charge[8]
    --@ gcra_charge
    reply[filled + 1], reply[filled + 2] = spent, now
  else
    charges[i](filled)
  end
end
return reply
