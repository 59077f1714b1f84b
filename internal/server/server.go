// Package server is
package server
