//go:build tools

// Package tools pins the other image builder that the tests run.
package tools

import (
	_ "github.com/GoogleContainerTools/kaniko/cmd/executor"
)
