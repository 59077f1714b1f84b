package phrase

import "testing"

func TestAnAddressIsSaidWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, want string }{
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"http://ada@limits.example", "http://ada@limits.example"},
		{"http://ada:secret@limits.example:8080/x", "http://ada:xxxxx@limits.example:8080/x"},
		{"ada:secret@limits.example:8080", "ada:xxxxx@limits.example:8080"},
		{"htp://ada:se/c@r?et@limits.example", "htp://ada:xxxxx@limits.example"},
		{"http://:secret@limits.example", "http://:xxxxx@limits.example"},
		{"limits.example:8080", "limits.example:8080"},
		{"@://", "@://"},
		{"", ""},
	} {
		if got := Address(row.text); got != row.want {
			t.Errorf("Address(%q) = %q, want %q", row.text, got, row.want)
		}
	}
}
