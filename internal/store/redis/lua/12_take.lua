-- The shortest way through an op: one take, and nothing else, from a bucket that
-- nobody leases and that has enough. Keys that are seen seldom ask so, which are
-- most of those that Redis hears of. It does what load, apply and save would do,
-- to the last bit, with as few commands as do, and without their tables; for all
-- else it is nil, and nothing was done.
--
-- Some of what it would ask Redis about each time is in the group's head: an instant until which
-- the group lives at least, and when data of its hash slot was lost, 0 for never, both µs. A later loss takes
-- the group, too. Groups of ledgers that ask in other ways have none.

local one
do
local HeldSize = 17 -- see ops
local ShortSize = 40 -- see unpackAsk
local PlainFormat = '<Bxxxxxxxxxxxxxxxxxxxxxxxxi8i8xxxxxxxxxxxxxxxxi8i8i8i8xxxxxxxxxxxxxxxxBBi8'
local PlainSize = 1 + 13 * 8 + 2 + 8
local HeadFormat = '<I7I7'
local HeadSlack = 1000 -- ms, by which the clock of the slot's next node may be ahead

-- plain returns the cost of an ask that is no more than one take.
local function plain(ask)
  if #ask == ShortSize then return unpack('<i8', ask, ShortSize - 7) end
  if #ask ~= PlainSize then return nil end
  local flags, lease, spent, debt, acked, raiseTo, ended, takes, _, cost = unpack(PlainFormat, ask)
  if flags ~= 0 or lease ~= 0 or spent ~= 0 or raiseTo ~= 0 or ended ~= 0 or debt ~= acked or takes ~= 1 then return nil end
  return cost
end

-- refilled reports whether a bucket that was empty at loss is full at now.
local function refilled(t, now, loss) return (now - loss) * t.q >= t.burst * t.p end

-- levelOf returns how full the bucket is that the group has as rest, µs and 1/q µs from now; nil where it takes more to say.
local function levelOf(t, now, rest)
  if whole(rest) or restRef(rest) ~= t.ref then return nil end
  local written, micros, frac = restNumbers(rest)
  if written > now then return nil end
  if written + micros < now then return 0, 0 end
  return written + micros - now, frac
end

-- heldOf and markOf return the names of keys that most ops do not need.
local function heldOf(at) return at.held or at.group .. sub(at.rest, 1, HeldSize) end

local function markOf(at) return at.mark or string.match(at.group, '^[^}]*}') end

-- markedLoss returns what a mark says; nil if there is none.
local function markedLoss(mark) return mark and unpack('<i8', mark) or nil end

-- begin puts the terms into the group, with the first ledger under them.
local function begin(group, t, fields, life)
  call('HSET', group, t.field, t.body, Head, fields.head, fields.name, fields.kept)
  if call('PEXPIRE', group, life, 'NX') == 1 then return end -- it had no end: it is new
  call('PEXPIRE', group, life, 'GT')
  renew({group = group, name = fields.name, offered = t}, fields.now, t.field)
end

-- take answers the ask if it is such a one, under the terms t.
local function take(at, now)
  local t = at.offered
  local cost = t.algorithm == TokenBucket and plain(at.ask)
  if not cost or cost < 1 then return nil end
  local group, name = at.group, at.name
  local found = call('HMGET', group, name, t.field, Head)
  local rest, body, head = found[1], found[2], found[3]
  if body and body ~= t.body then return nil end -- others have the same name

  local lives, loss, micros, frac = 0, 0, 0, 0
  if head then lives, loss = unpack(HeadFormat, head) end
  if rest then
    if not body then return nil end
    micros, frac = levelOf(t, now, rest)
    if not micros then return nil end
    if not head then loss = markedLoss(call('GET', markOf(at))) end
  else
    local held
    if head then
      held = call('GET', heldOf(at))
    else
      local both = call('MGET', heldOf(at), markOf(at))
      held, loss = both[1], markedLoss(both[2])
    end
    if held or not loss or loss > 0 and not t.whole and not refilled(t, now, loss) then return nil end
  end
  if not loss then return nil end

  local used = micros * t.q + frac + cost * t.p
  if used > t.burst * t.p then return nil end
  micros = floor(used / t.q)
  frac = used - micros * t.q
  local ms = max(at.least, ceil((micros + (frac > 0 and 1 or 0)) / 1000))
  local kept = packNumbers(t.ref, now, micros, frac)
  if body and lives >= now + ms * 1000 and not at.told then -- a caller's clock may have stepped back since
    call('HSET', group, name, kept)
  else
    local life = eased(t, ms)
    head = pack(HeadFormat, now + (life - HeadSlack) * 1000, loss)
    if body then
      call('HSET', group, Head, head, name, kept)
      call('PEXPIRE', group, life, 'GT')
    else
      begin(group, t, {head = head, name = name, kept = kept, now = now}, life)
    end
  end
  if body and not rest then sweep({group = group, name = name, offered = t}, now) end
  return pack('<i8i8', micros, frac) -- its caller knows the rest
end

-- one answers an op: at has where its ledger is, the terms and what is asked.
one = function(at, now)
  local short = take(at, now)
  if short then return short end
  release()
  at.found, at.terms, at.held, at.mark = nil, nil, heldOf(at), markOf(at)
  local bytes = call('GET', at.held)
  local answer = bytes and held(at, now, bytes)
  if answer then return answer end
  local s, was = load(at, now, bytes)
  answer = apply(s, now, at.offered, unpackAsk(at.ask))
  save(at, s, was)
  return packAnswer(answer, at.offered, s.over, at.found)
end
end

-- op has KEYS group, held, mark, and ARGV the ledger's name in the group, terms and ask; then, where time is not
-- Redis's own, the shortest time to live of a key (ms), and the time (µs).
local function op(keys, argv)
  bind()
  local now = timeOf(argv[5])
  return one({
    group = keys[1], held = keys[2], mark = keys[3], name = argv[1], offered = sameTerms(argv[2]), ask = argv[3],
    least = tonumber(argv[4] or 1), told = argv[5],
  }, now)
end
