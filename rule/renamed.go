package rule

// Renamed finds rules of s that are rules of before under another id: old ids by new ones. A rule's id is its identity, so to rename
// one is to take it away and to make another, whose budgets are whole, which may not be meant. Descriptions are not looked at.
func (s *Set) Renamed(before *Set) map[string]string {
	gone := map[string]string{} // what a rule did, to its name
	for _, r := range before.Rules {
		if s.Rule(r.ID) == nil {
			gone[string(r.nameless())] = r.ID
		}
	}
	renamed := map[string]string{}
	for _, r := range s.Rules {
		if len(gone) == 0 {
			break
		}
		if before.Rule(r.ID) != nil {
			continue
		}
		does := string(r.nameless())
		if old, ok := gone[does]; ok {
			renamed[r.ID] = old
			delete(gone, does)
		}
	}
	return renamed
}

// nameless is what a rule does, whatever it is called.
func (r *Rule) nameless() []byte {
	doc := r.document()
	doc.ID, doc.Version, doc.Description = "", 0, ""
	return encode(doc)
}
