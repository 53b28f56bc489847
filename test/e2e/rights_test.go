// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"podfit.dev/podfit/test/e2e/bed"
)

// checkRights returns an error if podfit has made a request in the cluster for which deploy/ and deploy/rights grant no right. Each command of podfit runs
// with these rights only, and the audit log has its requests.
func (w *world) checkRights() error {
	manifests, err := bed.Manifests(filepath.Join(w.root, "deploy"))
	if err != nil {
		return err
	}
	granted, err := bed.Granted(manifests)
	if err != nil {
		return err
	}
	refused, err := w.Refused(granted)
	if err != nil {
		return err
	}
	for _, request := range slices.Sorted(maps.Keys(refused)) {
		err = errors.Join(err, fmt.Errorf("%d requests were refused: deploy/ does not grant %s", refused[request], request))
	}
	return err
}
