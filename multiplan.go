package ration

// maxPlans is the most plans of a MultiPlan.
const maxPlans = 16
