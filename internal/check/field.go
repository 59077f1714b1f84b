package check

// Kind says what is wrong with a question.
type Kind uint8

const (
	// Malformed: the value means nothing. HTTP 400.
	Malformed Kind = iota
	// Unfit: the value is well formed, and not one that the field takes. HTTP 422.
	Unfit
	// Unknown: it names something that does not exist. HTTP 404.
	Unknown
)

// FieldError is a question that cannot be answered, by the field that is wrong. It never repeats a key or another attribute.
type FieldError struct {
	Kind    Kind
	Field   string // such as cost, or attributes.ip
	Message string // what is wrong, and what to write instead
}

// Error is the field and the message.
func (e *FieldError) Error() string { return e.Field + " " + e.Message }

func malformed(field, message string) error {
	return &FieldError{Kind: Malformed, Field: field, Message: message}
}

func unfit(field, message string) error {
	return &FieldError{Kind: Unfit, Field: field, Message: message}
}
