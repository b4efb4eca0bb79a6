package changes

import (
	"bytes"
	"slices"
)

// edit is a run of lines: those [oldFrom, oldTo) give way to [newFrom, newTo). One of both may be empty.
type edit struct{ oldFrom, oldTo, newFrom, newTo int }

// splitLines cuts after each newline; the last line may lack one.
func splitLines(b []byte) [][]byte {
	var lines [][]byte
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n') + 1
		if i == 0 {
			i = len(b)
		}
		lines = append(lines, b[:i])
		b = b[i:]
	}
	return lines
}

// compareLines gives the edits that turn old into new, in order. It takes lines that are unique on both sides as fixed
// points (patience diff) and finds a shortest script between them (E. Myers, An O(ND) difference algorithm, 1986), unless that is so
// long that nobody would read it.
func compareLines(old, new [][]byte) []edit {
	// Numbers compare faster than lines.
	ids := map[string]int{}
	number := func(lines [][]byte) []int {
		out := make([]int, len(lines))
		for i, l := range lines {
			id, ok := ids[string(l)]
			if !ok {
				id = len(ids)
				ids[string(l)] = id
			}
			out[i] = id
		}
		return out
	}
	c := &comparison{old: number(old), new: number(new)}
	c.between(0, len(c.old), 0, len(c.new))
	return c.edits
}

type comparison struct {
	old, new []int
	edits    []edit
	work     int // lines looked at so far
}

// maxWork bounds the time that a hostile text can cost, at about a second.
const maxWork = 1 << 26

// add appends an edit, joined to the one before where they touch.
func (c *comparison) add(e edit) {
	if e.oldFrom == e.oldTo && e.newFrom == e.newTo {
		return
	}
	if n := len(c.edits); n > 0 && c.edits[n-1].oldTo == e.oldFrom && c.edits[n-1].newTo == e.newFrom {
		c.edits[n-1].oldTo, c.edits[n-1].newTo = e.oldTo, e.newTo
		return
	}
	c.edits = append(c.edits, e)
}

func (c *comparison) between(oldFrom, oldTo, newFrom, newTo int) {
	for oldFrom < oldTo && newFrom < newTo && c.old[oldFrom] == c.new[newFrom] {
		oldFrom, newFrom = oldFrom+1, newFrom+1
	}
	for oldFrom < oldTo && newFrom < newTo && c.old[oldTo-1] == c.new[newTo-1] {
		oldTo, newTo = oldTo-1, newTo-1
	}
	if oldFrom == oldTo || newFrom == newTo {
		c.add(edit{oldFrom, oldTo, newFrom, newTo})
		return
	}
	if c.work += oldTo - oldFrom + newTo - newFrom; c.work > maxWork {
		c.add(edit{oldFrom, oldTo, newFrom, newTo})
		return
	}
	anchors := c.anchors(oldFrom, oldTo, newFrom, newTo)
	if len(anchors) == 0 {
		c.shortest(oldFrom, oldTo, newFrom, newTo)
		return
	}
	for _, a := range anchors {
		c.between(oldFrom, a[0], newFrom, a[1])
		oldFrom, newFrom = a[0]+1, a[1]+1
	}
	c.between(oldFrom, oldTo, newFrom, newTo)
}

// anchors gives the longest common sequence of lines that are there once on each side.
func (c *comparison) anchors(oldFrom, oldTo, newFrom, newTo int) [][2]int {
	type count struct{ old, new, at int }
	counts := map[int]*count{}
	for _, id := range c.old[oldFrom:oldTo] {
		if counts[id] == nil {
			counts[id] = &count{}
		}
		counts[id].old++
	}
	for i, id := range c.new[newFrom:newTo] {
		if n := counts[id]; n != nil {
			n.new++
			n.at = newFrom + i
		}
	}
	// Longest increasing sequence by piles; before links each card to the top of the pile to its left.
	var cards [][2]int
	var before, piles []int
	for i, id := range c.old[oldFrom:oldTo] {
		n := counts[id]
		if n.old != 1 || n.new != 1 {
			continue
		}
		pile, _ := slices.BinarySearchFunc(piles, n.at, func(card, at int) int { return cards[card][1] - at })
		link := -1
		if pile > 0 {
			link = piles[pile-1]
		}
		cards, before = append(cards, [2]int{oldFrom + i, n.at}), append(before, link)
		if pile == len(piles) {
			piles = append(piles, 0)
		}
		piles[pile] = len(cards) - 1
	}
	if len(piles) == 0 {
		return nil
	}
	out := make([][2]int, 0, len(piles))
	for card := piles[len(piles)-1]; card >= 0; card = before[card] {
		out = append(out, cards[card])
	}
	slices.Reverse(out)
	return out
}

// maxScript bounds the edit script of one stretch, and with it the memory to 8 MiB.
const maxScript = 1000

// shortest finds a shortest edit script by the greedy algorithm, or takes all lines for changed.
func (c *comparison) shortest(oldFrom, oldTo, newFrom, newTo int) {
	n, m := oldTo-oldFrom, newTo-newFrom
	limit := min(n+m, maxScript)
	reach := make([]int, 2*limit+3) // by diagonal, how far in old
	var trace [][]int
	at := func(v []int, k, d int) int { return v[k+d+1] }
	for d := 0; d <= limit && c.work <= maxWork; d++ {
		c.work += d
		// The state before step d, of diagonals -d-1 to d+1.
		trace = append(trace, slices.Clone(reach[limit-d:limit+d+3]))
		for k := -d; k <= d; k += 2 {
			v := reach[limit+1+k-1 : limit+1+k+2]
			x := v[0] + 1
			if k == -d || k != d && v[0] < v[2] {
				x = v[2]
			}
			for x < n && x-k < m && c.old[oldFrom+x] == c.new[newFrom+x-k] {
				x++
			}
			v[1] = x
			if x >= n && x-k >= m {
				c.follow(trace, d, n, m, oldFrom, newFrom, at)
				return
			}
		}
	}
	c.add(edit{oldFrom, oldTo, newFrom, newTo})
}

// follow goes back from the end of both to the beginning.
func (c *comparison) follow(trace [][]int, d, x, y, oldFrom, newFrom int, at func(v []int, k, d int) int) {
	var back []edit
	for ; d > 0; d-- {
		k := x - y
		v := trace[d]
		prev := k - 1
		if k == -d || k != d && at(v, k-1, d) < at(v, k+1, d) {
			prev = k + 1
		}
		px := at(v, prev, d)
		py := px - prev
		if prev > k { // down: a line of new
			back = append(back, edit{oldFrom + px, oldFrom + px, newFrom + py, newFrom + py + 1})
		} else {
			back = append(back, edit{oldFrom + px, oldFrom + px + 1, newFrom + py, newFrom + py})
		}
		x, y = px, py
	}
	slices.Reverse(back)
	for _, e := range back {
		c.add(e)
	}
}
