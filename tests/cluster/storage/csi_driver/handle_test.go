package main

import "testing"

func TestHandlesAreReadAsTheEFSDriverReadsThem(t *testing.T) {
	cases := map[string]string{
		"fs-e8a95a42":                                    "server:/efs/fs-e8a95a42/",
		"fs-e8a95a42::":                                  "server:/efs/fs-e8a95a42/",
		"fs-e8a95a42:/my/subpath":                        "server:/efs/fs-e8a95a42/my/subpath",
		"fs-e8a95a42:my/subpath:":                        "server:/efs/fs-e8a95a42/my/subpath",
		"fs-e8a95a42::fsap-19f752f0068c22464":            "server:/efs/fsap-19f752f0068c22464/",
		"fs-e8a95a42:/my/subpath:fsap-19f752f0068c22464": "server:/efs/fsap-19f752f0068c22464/my/subpath",
		"fs-e8a95a42:/../../etc":                         "server:/efs/fs-e8a95a42/etc",
	}
	for handle, want := range cases {
		parsed, err := parseHandle(handle)
		if err != nil || parsed.pathBelow("server:/efs") != want {
			t.Errorf("%q: %q %v, want %q", handle, parsed.pathBelow("server:/efs"), err, want)
		}
	}
}

func TestOtherHandlesAreRefused(t *testing.T) {
	for _, handle := range []string{
		"", "e8a95a42", "fs-", "fs-..", "fs-XYZ12345", "FS-e8a95a42", "vol-e8a95a42", ":/my/subpath", "fs-e8a95a42/my",
		"fs-e8a95a42::19f752f0", "fs-e8a95a42:/my:fs-e8a95a42", "fs-e8a95a42:/my:fsap-", "fs-e8a95a42:/my:fsap-19f752f0:", "a:b:c:d",
	} {
		if parsed, err := parseHandle(handle); err == nil {
			t.Errorf("%q was read as %+v", handle, parsed)
		}
	}
}

func TestAttributesAreThoseOfTheEFSDriver(t *testing.T) {
	if subpath, err := readContext(map[string]string{"path": "/models", "encryptInTransit": "false"}); err != nil || subpath != "/models" {
		t.Errorf("%q %v", subpath, err)
	}
	for name, value := range map[string]string{"path": "models", "encryptInTransit": "perhaps", "colour": "blue"} {
		if _, err := readContext(map[string]string{name: value}); err == nil {
			t.Errorf("%s=%s was taken", name, value)
		}
	}
}
