package demo

import (
	"context"
	"errors"
)

func replay(context.Context, Config) (*traffic, error) { return nil, errors.New("not yet") }
