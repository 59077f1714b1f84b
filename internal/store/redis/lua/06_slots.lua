-- Package slots: h has holder, name, slots, exp, seq, version, offer and fate.
local Own, Displaced, Shared = 0, 1, 2
local SlotsGuard, Linger, MaxHoldings, MaxNeeds = 50000, 2000000, 4096, 64
local Follow, Unlimited, MaxOffer = 5000000, 2^40, 1000000000
local NoName = '\0\0\0\0\0\0\0\0'

local function slotsTotal(s)
  local n = 0
  for _, h in ipairs(s.holdings) do n = n + h.slots end
  return n
end

local function slotsExpire(s, now)
  local live = {}
  for _, h in ipairs(s.holdings) do
    if h.exp > now then live[#live + 1] = h end
  end
  s.holdings = live
end

local function slotsShift(s, d)
  for _, h in ipairs(s.holdings) do h.exp = h.exp + d end
  s.at = s.at + d
end

local function slotsEnds(s)
  local ends = 0
  for _, h in ipairs(s.holdings) do ends = max(ends, h.exp) end
  return ends
end

local function slotsAnswer(s, i, n, ask)
  local a = {n = n, slots = s.holdings[i].slots, others = 0, holders = 0}
  for j, h in ipairs(s.holdings) do
    if j ~= i then a.others = a.others + h.slots end
    if h.slots > 0 then a.holders = a.holders + 1 end
  end
  local used = ask.spent
  for _, need in ipairs(ask.needs) do used = used + need end
  a.short = a.slots < used
  return a
end

-- slotsLimit returns n at now, which under terms with a share follows the offers.
local function slotsLimit(s, now, terms)
  if terms.share == 0 then return terms.burst end
  local sum = 0
  for _, h in ipairs(s.holdings) do sum = sum + min(h.offer, MaxOffer) end
  local aim = sum * terms.share * 10 -- thousandths of a percentage
  local gone = max(0, now - s.at)
  if s.sum == 0 or gone >= Follow then
    s.sum, s.at = aim, now
  else
    -- A step that rounds to nothing waits until it does not: asks may come faster than that.
    local step = (aim - s.sum) * gone / Follow
    step = step < 0 and ceil(step) or floor(step)
    if step ~= 0 or s.sum == aim then s.sum, s.at = s.sum + step, now end
  end
  if math.abs(aim - s.sum) < 1000 then s.sum = aim end
  if sum == 0 then return Unlimited end
  return max(1, floor(s.sum / 1000))
end

-- slotsOpen makes a holding, and displaces those of its name: a process that
-- starts again cannot tell what it had in flight before.
local function slotsOpen(s, ask)
  local fate = Own
  for _, h in ipairs(s.holdings) do
    if ask.name ~= NoName and h.name == ask.name then
      if h.fate == Shared then
        fate = Shared
      else
        h.slots, h.offer, h.fate = 0, 0, Displaced
      end
    end
  end
  s.holdings[#s.holdings + 1] = {
    holder = ask.holder, name = ask.name, slots = 0, exp = 0, seq = 0, version = 0, offer = 0, fate = fate,
  }
  return #s.holdings
end

-- slotsAhead is how much of left one holder may have without need.
local function slotsAhead(s, i, left)
  local others = 0
  for j, h in ipairs(s.holdings) do
    if j ~= i and h.slots > 0 then others = others + 1 end
  end
  if others == 0 then return left end
  return floor(left / (others + 2))
end

-- slotsSize returns how many slots holding i has after the ask.
local function slotsSize(s, now, i, n, ask)
  local had = s.holdings[i].slots
  local others = slotsTotal(s) - had
  local room = n - others
  if now < s.closed then room = 0 end
  local kept = max(ask.spent, min(had, ask.raiseTo))
  local used = ask.spent
  for j = 1, min(#ask.needs, MaxNeeds) do
    local need = ask.needs[j]
    if need >= 0 and used + need <= room then used = used + need end
  end
  kept = max(kept, used)
  local more = min(ask.raiseTo - kept, slotsAhead(s, i, room - kept), floor(n * 4 / 5) - others - kept)
  return kept + max(0, more)
end

local function slotsApply(s, now, terms, ask)
  slotsExpire(s, now)
  local i
  for j, h in ipairs(s.holdings) do
    if h.holder == ask.holder then i = j break end
  end
  if i and ask.seq < s.holdings[i].seq then
    return {superseded = true}
  elseif i and ask.seq == s.holdings[i].seq then
    return slotsAnswer(s, i, slotsLimit(s, now, terms), ask)
  elseif not i and #s.holdings >= MaxHoldings then
    return {n = slotsLimit(s, now, terms), slots = 0, others = slotsTotal(s), holders = MaxHoldings, short = true}
  elseif not i then
    i = slotsOpen(s, ask)
  end
  local h = s.holdings[i]
  if h.fate == Displaced then
    -- It lives after all, so two holders share the name, and neither may displace.
    for _, other in ipairs(s.holdings) do
      if other.name == h.name then other.fate = Shared end
    end
  end
  h.offer = ask.offer
  local n = slotsLimit(s, now, terms)
  h.slots = slotsSize(s, now, i, n, ask)
  h.seq, h.name, h.version = ask.seq, ask.name, terms.version
  h.exp = max(h.exp, now + terms.ttl + SlotsGuard)
  if h.slots == 0 and h.offer == 0 and h.fate == Own then h.exp = now + Linger end
  return slotsAnswer(s, i, n, ask)
end
