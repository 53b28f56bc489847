// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"strconv"
)

// MemoryLimitVariable is the environment variable with the memory limit of the container in bytes, as a resourceFieldRef
// to limits.memory sets it (deploy/).
const MemoryLimitVariable = "PODFIT_MEMORY_LIMIT"

// minMemoryLimit is the smallest memory limit in bytes that is accepted. With less, the garbage collector of the Go runtime would never stop.
const minMemoryLimit = 16 << 20

// heapLimit returns 90 % of the memory limit of the container, as the memory limit for the Go runtime, which does not count the binary
// and kernel memory of the process. It is 0, which means that the limit of the runtime is not changed, if the limit of the
// container is not known or GOMEMLIMIT is set.
func heapLimit(getenv func(string) string) (int64, error) {
	text := getenv(MemoryLimitVariable)
	if text == "" || getenv("GOMEMLIMIT") != "" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < minMemoryLimit {
		return 0, fmt.Errorf("environment variable %s must be a number of bytes of at least %d, got %q; check the divisor of the resourceFieldRef", MemoryLimitVariable, minMemoryLimit, text)
	}
	return limit - limit/10, nil
}
