-- rate.Log: entries are {at, n}, oldest first; l has limit and length.
local function logUsed(entries)
  local n = 0
  for _, e in ipairs(entries) do n = n + e[2] end
  return n
end

local function logAdd(entries, now, n)
  if n <= 0 then return end
  local i = #entries
  while i > 0 and entries[i][1] > now do i = i - 1 end
  if i > 0 and entries[i][1] == now then
    entries[i][2] = entries[i][2] + n
  else
    table.insert(entries, i + 1, {now, n})
  end
end

-- logPrune returns the entries that still count at now. What a clock that
-- stepped back left in the future counts as of now.
local function logPrune(l, entries, now)
  local later = 0
  while #entries > 0 and entries[#entries][1] > now do
    later = later + entries[#entries][2]
    entries[#entries] = nil
  end
  logAdd(entries, now, later)
  local kept = {}
  for _, e in ipairs(entries) do
    if e[1] > now - l.length then kept[#kept + 1] = e end
  end
  return kept
end

-- logRemove takes n tokens out, the newest first.
local function logRemove(entries, n)
  while n > 0 and #entries > 0 do
    local last = entries[#entries]
    local part = min(n, last[2])
    last[2], n = last[2] - part, n - part
    if last[2] == 0 then entries[#entries] = nil end
  end
end

local function logWait(l, entries, now, n)
  if n > l.limit then return -1 end
  local over = logUsed(entries) + n - l.limit
  for _, e in ipairs(entries) do
    if over <= 0 then break end
    over = over - e[2]
    if over <= 0 then return max(0, e[1] + l.length - now) end
  end
  return 0
end

local function logClear(l, entries, now)
  if #entries == 0 then return 0 end
  return max(0, entries[#entries][1] + l.length - now)
end
