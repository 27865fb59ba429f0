-- How long it takes until a request of `cost` units fits, if it does not now ("refused"), and until all
-- units are out.
local retry, reset = 0, total > 0 and math.min(newest, now) + window - now or 0
local lacking = total + cost - limit
if refused and lacking > 0 or ended and total > 0 then
  --@ slidinglog_out
  if refused and lacking > 0 then
    retry = outAfter(lacking)
  end
  if ended and total > 0 then
    reset = outAfter(total)
  end
end
