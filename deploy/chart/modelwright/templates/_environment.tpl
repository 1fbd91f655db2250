{{/* Quantities as cpu=100m,memory=128Mi; none of them is said too, or the operator would have its own. */}}
{{- define "modelwright.quantities" -}}
{{- $pairs := list -}}
{{- range $name, $quantity := . -}}
{{- $pairs = append $pairs (printf "%s=%v" $name $quantity) -}}
{{- end -}}
{{- join "," $pairs | default "none" -}}
{{- end -}}

{{- define "modelwright.environment" -}}
- name: HOME
  value: /tmp
- name: MODELWRIGHT_LISTEN
  value: "[::]:8080"
- name: MODELWRIGHT_LEASE_NAME
  value: {{ include "modelwright.operator" . }}
- name: MODELWRIGHT_LEASE_DURATION
  value: {{ .Values.lease.duration }}
- name: MODELWRIGHT_LEASE_RENEW_DEADLINE
  value: {{ .Values.lease.renewDeadline }}
- name: MODELWRIGHT_LEASE_RETRY_PERIOD
  value: {{ .Values.lease.retryPeriod }}
- name: MODELWRIGHT_RESYNC
  value: {{ .Values.resync }}
- name: MODELWRIGHT_LOG_FORMAT
  value: {{ .Values.log.format }}
- name: MODELWRIGHT_LOG_LEVEL
  value: {{ .Values.log.level }}
- name: MODELWRIGHT_AGENT_IMAGE
  value: {{ .Values.build.image | default (include "modelwright.image" .) | quote }}
{{- with .Values.build.kanikoImage }}
- name: MODELWRIGHT_KANIKO_IMAGE
  value: {{ . | quote }}
{{- end }}
{{- with .Values.build.imagePullSecrets }}
- name: MODELWRIGHT_IMAGE_PULL_SECRET
  value: {{ join "," . | quote }}
{{- end }}
- name: MODELWRIGHT_RUN_AS_USER
  value: {{ .Values.build.runAsUser | int64 | quote }}
- name: MODELWRIGHT_RUN_AS_GROUP
  value: {{ .Values.build.runAsGroup | int64 | quote }}
- name: MODELWRIGHT_BUILD_REQUESTS
  value: {{ include "modelwright.quantities" .Values.build.resources.requests | quote }}
- name: MODELWRIGHT_BUILD_LIMITS
  value: {{ include "modelwright.quantities" .Values.build.resources.limits | quote }}
{{- with .Values.registry.default }}
- name: MODELWRIGHT_REGISTRY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.registry.plainHTTP }}
- name: MODELWRIGHT_PLAIN_HTTP
  value: {{ join "," . | quote }}
{{- end }}
- name: MODELWRIGHT_CREATE_VOLUMES
  value: {{ .Values.storage.createVolumes | quote }}
{{- with .Values.storage.allowHostPaths }}
- name: MODELWRIGHT_ALLOW_HOST_PATH
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.storage.allowNFSServers }}
- name: MODELWRIGHT_ALLOW_NFS_SERVER
  value: {{ join "," . | quote }}
{{- end }}
{{- include "modelwright.servingEnvironment" . | nindent 0 }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "modelwright.servingEnvironment" -}}
- name: MODELWRIGHT_SERVING
  value: {{ .Values.serving.enabled | quote }}
{{- if .Values.serving.enabled }}
{{- $images := .Values.serving.images }}
- name: MODELWRIGHT_GATEWAY_IMAGE
  value: {{ $images.gateway | default (include "modelwright.imageBeside" (dict "root" . "name" "gateway")) | quote }}
- name: MODELWRIGHT_ONNX_IMAGE
  value: {{ $images.onnx | default (include "modelwright.imageBeside" (dict "root" . "name" "server-onnx")) | quote }}
- name: MODELWRIGHT_SKLEARN_IMAGE
  value: {{ $images.sklearn | default (include "modelwright.imageBeside" (dict "root" . "name" "server-sklearn")) | quote }}
- name: MODELWRIGHT_TENSORFLOW_SERVER
  value: {{ .Values.serving.tensorflow }}
{{- if $images.tensorflow }}
- name: MODELWRIGHT_TENSORFLOW_IMAGE
  value: {{ $images.tensorflow | quote }}
{{- else if eq .Values.serving.tensorflow "modelwright" }}
- name: MODELWRIGHT_TENSORFLOW_IMAGE
  value: {{ include "modelwright.imageBeside" (dict "root" . "name" "server-tensorflow") | quote }}
{{- end }}
{{- with .Values.serving.imagePullSecrets }}
- name: MODELWRIGHT_SERVER_PULL_SECRET
  value: {{ join "," . | quote }}
{{- end }}
- name: MODELWRIGHT_AGENT_REQUESTS
  value: {{ include "modelwright.quantities" .Values.serving.agentResources.requests | quote }}
- name: MODELWRIGHT_AGENT_LIMITS
  value: {{ include "modelwright.quantities" .Values.serving.agentResources.limits | quote }}
- name: MODELWRIGHT_GATEWAY_REQUESTS
  value: {{ include "modelwright.quantities" .Values.serving.gatewayResources.requests | quote }}
- name: MODELWRIGHT_GATEWAY_LIMITS
  value: {{ include "modelwright.quantities" .Values.serving.gatewayResources.limits | quote }}
- name: MODELWRIGHT_EDGE_FOLDER
  value: {{ .Values.serving.edgeFolder | quote }}
- name: MODELWRIGHT_IMAGE_VOLUMES
  value: {{ .Values.serving.imageVolumes | quote }}
- name: MODELWRIGHT_PROGRESS_DEADLINE
  value: {{ printf "%ds" (int64 .Values.serving.progressDeadlineSeconds) | quote }}
- name: MODELWRIGHT_CLUSTER_DOMAIN
  value: {{ .Values.clusterDomain | quote }}
{{- end }}
{{- end -}}
