-- What had been spent when the request was granted (left; at the moment taken) is being earned since.
-- What of it is not earned yet, had nobody else spent anything, is what of the request can still be given
-- back, and no more. So nobody is granted what would not have been, had it not been spent in the first
-- place. To a clock that stepped back behind that moment nothing is given, for the step counts as spent,
-- at most the capacity, and it is not known what would have been.
local back = 0
if now >= taken and now - taken < left / n then
  back = math.min(spending, spent, left - (now - taken) * n)
end
local units = -back
--@ gcra_charge
