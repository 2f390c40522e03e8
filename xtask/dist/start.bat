@echo off
rem Starts SiliconRoute's main job: measures this computer and prints what it found. Made for a double click;
rem options given to this file go to `siliconroute up`. It needs no administrator rights and changes nothing
rem outside of SiliconRoute's own folder in your profile.
setlocal DisableDelayedExpansion
title SiliconRoute
chcp 65001 >nul

"%~dp0siliconroute.exe" up --once %*
set "code=%ERRORLEVEL%"

rem 0 is done, 2 wrong options, 130 interrupted: the program has said it all.
set "told="
for %%c in (0 2 130) do if "%code%"=="%%c" set "told=yes"
if not defined told (
    echo.
    echo SiliconRoute ended with code %code%. What may be wrong:
    echo   "%~dp0siliconroute.exe" doctor
)
rem Without this the window of a double click would be gone before anyone could read it.
if not defined SILICONROUTE_NO_PAUSE (
    echo.
    pause
)
exit /b %code%
