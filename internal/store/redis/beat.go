package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// maxHolders bounds the incarnations that live at once; far more than a fleet has.
const maxHolders = 1 << 18

// Beat notes that holders live for another ttl, and returns how many live; see
// store.Store. A ttl of 0 says that they left. It also hears whose data this is,
// says so again where Redis has lost it, and sees to it that what says so outlives the ledgers.
func (s *Store) Beat(ctx context.Context, holders []uint64, ttl time.Duration) (live int64, err error) {
	s.closing.RLock()
	defer s.closing.RUnlock()

	if err := s.usable(ctx); err != nil {
		return 0, err
	}

	s.look() //nolint:contextcheck // it may take longer than this call

	if ttl < 0 {
		return 0, fmt.Errorf("beat: the ttl of %v is negative", ttl)
	}

	ctx, cancel := within(ctx)
	defer cancel()

	seen := s.library.loads.Load()

	keys := []string{s.names.holders(), s.names.id()}

	heard, err := s.sendBeat(ctx, keys, holders, ttl)
	if refusalOf(err) == unknownFunction {
		s.library.load(ctx, s.client, seen)

		heard, err = s.sendBeat(ctx, keys, holders, ttl)
	}

	if refusalOf(err) == movingSlot {
		heard, err = s.sendBeat(ctx, keys[:1], holders, ttl)
	}

	if err != nil {
		return 0, fmt.Errorf("beat: Redis: %w", err)
	}

	s.id.Store(heard.id)
	s.spreadLoss(ctx)

	if heard.kept < keepData/2 {
		if err := s.renewMarks(ctx); err != nil {
			return heard.live, fmt.Errorf("beat: the marks of the data were not renewed: %w", err)
		}
	}

	if heard.refused > 0 {
		return heard.live, fmt.Errorf("beat: %d holders live already, which is the most that are counted", heard.live)
	}

	return heard.live, nil
}

// heard is what Redis says to a beat.
type heard struct {
	live, refused int64
	id            uint64
	kept          time.Duration // how long the id is kept
}

func (s *Store) sendBeat(ctx context.Context, keys []string, holders []uint64, ttl time.Duration) (heard, error) {
	args := make([]string, 0, 6+len(holders))
	args = append(args, idText(s.ID()), decimal(keepData.Milliseconds()), decimal(ttl.Microseconds()), decimal(maxHolders),
		s.least, s.told())

	for _, h := range holders {
		args = append(args, idText(h))
	}

	list, err := s.client.Do(ctx, s.client.B().Fcall().Function(s.library.beat).Numkeys(int64(len(keys))).Key(keys...).
		Arg(args...).Build()).ToArray()
	if err != nil {
		return heard{}, err
	}

	return readBeat(list)
}

func readBeat(list []rueidis.RedisMessage) (h heard, err error) {
	if len(list) != 4 {
		return h, errAnswer
	}

	var errs [4]error

	var id string

	var kept int64

	h.live, errs[0] = list[0].AsInt64()
	h.refused, errs[1] = list[1].AsInt64()
	id, errs[2] = list[2].ToString()
	kept, errs[3] = list[3].AsInt64()

	if err := errors.Join(errs[:]...); err != nil {
		return h, err
	}

	h.kept = time.Duration(kept) * time.Millisecond
	h.id, err = readID(id)

	return h, err
}

// An id is eight bytes, so that it is exact where numbers are doubles.
func idText(id uint64) string { return string(binary.BigEndian.AppendUint64(nil, id)) }

func readID(text string) (uint64, error) {
	if len(text) != 8 {
		return 0, fmt.Errorf("the data's id has %d bytes where 8 belong: another program uses these keys (set another prefix)", len(text))
	}

	return binary.BigEndian.Uint64([]byte(text)), nil
}
