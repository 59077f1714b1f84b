-- One op on one ledger. Where it is kept:
--
--	group   a hash of about a hundred ledgers at rest, each of a few bytes, the terms that
--	        they were last charged under, each once, and its head: see 12_take.lua
--	held    a ledger that has leases, a log or slots, by itself
--	mark    says of its hash slot when data was lost, if it ever was
--
-- at has their keys, the ledger's name in the group, the terms that are offered, and
-- those that it had in the group if it was there.
local MarkTTL = 400 * 24 * 3600 * 1000 -- ms
local SweepFrom, SweepEvery, SweepSize = 48, 16, 32
local Head = 'h' -- its field

-- timeOf returns the time that the caller says, or Redis's own if it says none, µs.
local function timeOf(text)
  if text and text ~= '' then return tonumber(text) end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

local function termsField(ref) return 't' .. ref end

-- eased returns for how long a group is kept that must live for ms: longer, so that the next ops
-- of it need not say so again, to Redis and to its replicas, but no longer than two windows.
local function eased(t, ms)
  local whole = t.length
  if t.algorithm == TokenBucket or t.algorithm == LeakyBucket then whole = t.burst * t.p / t.q end
  return max(ms, min(floor(whole / 500), 2 * ms + 5000))
end

-- expireAfter has the group live for ms, or as long as it would anyway.
local function expireAfter(at, t, ms)
  if call('PTTL', at.group) < ms then call('PEXPIRE', at.group, eased(t, ms)) end
end

-- lossOf returns when the data of this hash slot was lost, 0 for never. A mark
-- is set for each slot before the first op of all: one that is missing was lost, by now.
local function lossOf(at, now)
  local bytes = call('GET', at.mark)
  if bytes then return (unpack('<i8', bytes)) end
  call('SET', at.mark, pack('<i8', now), 'PX', MarkTTL)
  at.found = true
  return now
end

-- termsOf returns the terms of that name that the group has, by way of known.
local function termsOf(at, ref, known)
  local terms = known[ref]
  if not terms then
    local body = call('HGET', at.group, termsField(ref))
    if body then
      body = ref .. body
      terms = body == at.offered.bytes and at.offered or unpackTerms(body)
      known[ref] = terms
    end
  end
  return terms
end

-- over reports whether a ledger of the group says nothing any more.
local function over(at, bytes, now, known)
  if whole(bytes) then return ends(unpackState(bytes, at.offered)) <= now end
  local terms = termsOf(at, restRef(bytes), known)
  if not terms then return true end
  return clear(unpackRest(bytes, terms)) <= now
end

-- sweep looks at some ledgers of a group that has grown by that of at, and drops those that say nothing:
-- at most every other one of a group that is full is dead. Names are digests: every sixteenth ends so.
local function sweep(at, now)
  if string.byte(at.name, -1) % SweepEvery ~= 0 or call('HLEN', at.group) < SweepFrom then return end
  local known = {}
  local some = call('HRANDFIELD', at.group, SweepSize, 'WITHVALUES')
  for i = 1, #some, 2 do
    if #some[i] == #at.name and some[i] ~= at.name and over(at, some[i + 1], now, known) then call('HDEL', at.group, some[i]) end
  end
end

-- renew drops what says nothing from the whole group, and the terms that nobody
-- refers to then, but for new ones. It comes with those only: when a rule has changed.
local function renew(at, now, new)
  local known, used, all = {}, {[new] = true, [Head] = true}, call('HGETALL', at.group)
  for i = 1, #all, 2 do
    if #all[i] == #at.name then
      if over(at, all[i + 1], now, known) then
        call('HDEL', at.group, all[i])
      else
        used[termsField(restRef(all[i + 1]))] = true
      end
    end
  end
  for i = 1, #all, 2 do
    if #all[i] ~= #at.name and not used[all[i]] then call('HDEL', at.group, all[i]) end
  end
end

-- keepTerms makes sure that the group has the terms, and reports whether it can:
-- others may have the same name.
local function keepTerms(at, terms, now)
  if terms.bytes == at.terms then return true end -- they were read from there
  local body = sub(terms.bytes, 5)
  local field = termsField(terms.ref)
  local kept = call('HGET', at.group, field)
  if kept then return kept == body end
  call('HSET', at.group, field, body) -- first: a group that is gone for a moment is another node's if its slot moves
  if call('HLEN', at.group) > 1 then renew(at, now, field) end
  return true
end

-- grouped returns the ledger that the group has under that name, if it has one.
local function grouped(at)
  local bytes = call('HGET', at.group, at.name)
  if bytes and whole(bytes) then return unpackState(bytes, at.offered) end
  local terms = bytes and termsOf(at, restRef(bytes), {})
  if not terms then return nil end
  at.terms = terms.bytes
  return unpackRest(bytes, terms)
end

-- unknown returns a ledger that nothing is known of, in a hash slot whose data was lost at loss, or never if that is 0.
local function unknown(offered, loss)
  local s = newState(noTerms())
  if loss > 0 and not offered.whole then lost(s, offered, loss) end
  return s
end

-- load returns the ledger, and where it was: in the group, by itself (bytes), or nowhere.
local function load(at, now, bytes)
  if bytes then return unpackState(bytes, at.offered), 'held' end
  local s = grouped(at)
  if s then return s, 'rest' end
  return unknown(at.offered, lossOf(at, now)), 'nowhere'
end

-- milliseconds returns how long a ledger that says something is kept.
local function milliseconds(at, s) return max(at.least, ceil((ends(s) - s.now) / 1000)) end

-- save keeps the ledger as small as it goes.
local function save(at, s, was)
  local a, b
  if not idle(s) then
    local ms = milliseconds(at, s)
    a, b = packable(s)
    local rest = a and packRest(s, a, b) -- before the first write, which nothing may leave alone
    if a and keepTerms(at, s.terms, s.now) then
      if call('HSET', at.group, at.name, rest) == 1 then sweep(at, s.now) end
      expireAfter(at, s.terms, ms)
    else
      a = nil
      call('SET', at.held, packState(s), 'PX', ms)
    end
    if a and was ~= 'held' or not a and was ~= 'rest' then return end -- it is where it was
  end
  if was == 'held' then call('DEL', at.held) end
  if was == 'rest' then call('HDEL', at.group, at.name) end
end
