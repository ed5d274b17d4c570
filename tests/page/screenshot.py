# SPDX-License-Identifier: Apache-2.0
#
# usage: /usr/bin/python3 tests/page/screenshot.py PAGE PNG
#
# Draws a page of heaptap html as it opens in chromium, such as that of scripts/demo for
# analyzer/page/screenshot.png.
import pathlib
import sys

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait


def main():
    options = Options()
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--window-size=1100,900"]:
        options.add_argument(argument)
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        driver.get(pathlib.Path(sys.argv[1]).resolve().as_uri())
        WebDriverWait(driver, 60).until(lambda _: driver.execute_script(
            "return document.querySelector('#view').childElementCount > 0"))
        driver.save_screenshot(sys.argv[2])
    finally:
        driver.quit()


main()
