#!/usr/bin/env bash
# Installs the typefaces of generated documents. Debian or Ubuntu; needs root for apt-get, and npm for Fraktur.
# Usage: install_fonts.sh [FOLDER for the Fraktur fonts, default .cache/train/fonts]
# Licences: SIL OFL 1.1, GPL with font exception (ADF, Linux Libertine, WenQuanYi), MIT (Fanwood), public domain
# (Goudy Bookletter, Prociono); see /usr/share/doc/fonts-*/copyright and the LICENSE inside each npm package.
set -euo pipefail
folder=${1:-.cache/train/fonts}
apt-get install -y --no-install-recommends \
    fonts-ebgaramond fonts-linuxlibertine fonts-junicode fonts-cardo fonts-oldstandard fonts-gfs-didot \
    fonts-gfs-artemisia fonts-gfs-baskerville fonts-gfs-bodoni-classic fonts-crosextra-caladea fonts-crosextra-carlito \
    fonts-noto-cjk fonts-noto-cjk-extra fonts-goudybookletter fonts-sil-gentium fonts-sil-charis fonts-adf-accanthis \
    fonts-adf-baskervald fonts-adf-romande fonts-adf-berenis fonts-cmu fonts-vollkorn fonts-prociono fonts-fanwood \
    fonts-courier-prime fonts-stix fonts-quattrocento fonts-lxgw-wenkai fonts-averia-serif-gwf fonts-inconsolata \
    fonts-liberation fonts-essays1743 fonts-compagnon fonts-gnutypewriter fonts-wqy-zenhei \
    fonts-blankenburg fonts-gamaliel fonts-gotico-antiqua
mkdir -p "$folder"
cd "$folder"
for family in unifrakturmaguntia unifrakturcook; do
    npm pack --silent "@fontsource/$family@5.3.0"
    tar -xzf "fontsource-$family-5.3.0.tgz" --strip-components=2 --wildcards 'package/files/*.woff'
    tar -xzf "fontsource-$family-5.3.0.tgz" --transform "s|package/LICENSE|$family.LICENSE|" package/LICENSE
    rm "fontsource-$family-5.3.0.tgz"
done
