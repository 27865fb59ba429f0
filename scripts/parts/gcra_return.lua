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
--@ gcra_charge
