//go:build tools

// Package tools pins Helm that the tests run.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
