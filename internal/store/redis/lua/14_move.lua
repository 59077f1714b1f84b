-- One op on a ledger whose hash slot is on its way to another node. Such a slot's
-- keys are some here, some there, and no node runs what names two of them. What
-- names one is run where that key is, or, if it is nowhere, where the slot goes to.
-- So the caller looks for the ledger in one key after the other:
--
--	held ──no──> group ──no──> mark ───> held ──no──> new, in the group
--
-- and where it is, it stays until the slot has arrived: with leases in a group as
-- well. A missing ledger begins in its group, unless it came to be by itself
-- meanwhile. That key can only be on the same node then, since a node that the
-- slot leaves makes none. Asking for it is the one look at a key that was not declared.

-- stay keeps the ledger in the group, at rest or whole.
local function stay(at, s, was)
  if idle(s) then
    if was then call('HDEL', at.group, at.name) end
    return
  end
  local a, b = packable(s)
  local rest = a and packRest(s, a, b)
  if not (a and keepTerms(at, s.terms, s.now)) then rest = packState(s) end
  call('HSET', at.group, at.name, rest)
  expireAfter(at, s.terms, milliseconds(at, s))
end

-- moveHeld applies the ask to a ledger by itself, and reports whether there is one.
local function moveHeld(at, now, ask)
  local bytes = call('GET', at.held)
  if not bytes then return nil end
  local s = unpackState(bytes, at.offered)
  local answer = apply(s, now, at.offered, ask)
  if idle(s) then
    call('DEL', at.held)
  else
    call('SET', at.held, packState(s), 'PX', milliseconds(at, s))
  end
  return answer, s.over
end

-- moveGroup applies the ask to a ledger of the group. One that is not there begins
-- if the caller knows the loss of its slot.
local function moveGroup(at, now, ask, loss)
  local s = grouped(at)
  local was = s ~= nil
  if not s then
    if not loss then return nil end
    local other = redis.pcall('GET', at.held)
    if type(other) == 'string' then return nil end
    s = unknown(at.offered, loss)
  end
  local answer = apply(s, now, at.offered, ask)
  stay(at, s, was)
  return answer, s.over
end

-- move has one of an op's KEYS, and ARGV as op has; then which of them it is, the name of held, and the
-- loss of the slot if it is known, or ''. It returns '' where the ledger is not.
local function move(keys, argv)
  bind()
  release()
  local now, which = timeOf(argv[5]), argv[6]
  if which == 'mark' then return string.format('%.0f', lossOf({mark = keys[1]}, now)) end
  local at = {group = keys[1], held = argv[7], name = argv[1], least = tonumber(argv[4]), offered = unpackTerms(argv[2])}
  local answer, over
  if which == 'held' then
    answer, over = moveHeld(at, now, unpackAsk(argv[3]))
  else
    answer, over = moveGroup(at, now, unpackAsk(argv[3]), tonumber(argv[8]))
  end
  return answer and packAnswer(answer, at.offered, over) or ''
end
